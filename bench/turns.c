/* Ranks that share CPUs: barriers among the ranks of each CPU, on all CPUs at once. us per barrier.
 *
 * The ranks are dealt out to the CPUs in turn. The figure is of the ranks of a CPU. */
#include "bench.h"

static MPI_Comm beside;

static void barrier(void *context, int repetitions)
{
    (void)context;
    for (int i = 0; i < repetitions; i++) MPI_Barrier(beside);
}

int main(int argc, char **argv)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus)) return 1;
    setenv("BENCH_APART", "1", 1);
    bench_start(&argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, bench_rank % CPU_COUNT(&cpus), bench_rank, &beside);
    bench_result("turns", 0, bench_measure_here(barrier, NULL) * 1e6, "us");
    MPI_Comm_free(&beside);
    MPI_Finalize();
    return 0;
}
