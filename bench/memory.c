/* Resident and private memory per rank, after every rank has talked to every other; with the argument
 * `start`, after MPI_Init and one barrier. MiB, the mean over ranks.
 *
 * `rss` counts shared pages in every process that touches them, `peak` is the most it has ever been; `pss`
 * divides them among these. */
#include "bench.h"

/* Reads a "Name:   123 kB" line of a /proc file; -1 where there is none. */
static double field_kib(const char *path, const char *name)
{
    char line[256];
    double kib = -1;
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) {
            kib = atof(line + strlen(name));
            break;
        }
    fclose(file);
    return kib;
}

static void report(const char *name, double kib)
{
    double sum = 0;
    MPI_Reduce(&kib, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (kib >= 0) bench_result(name, 0, sum / bench_size / 1024, "MiB");
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    int is_start = argc > 1 && !strcmp(argv[1], "start");
    if (!is_start) {
        char *out = bench_buffer((size_t)bench_size * 64), *in = bench_buffer((size_t)bench_size * 64);
        for (int i = 0; i < 10; i++) MPI_Alltoall(out, 64, MPI_CHAR, in, 64, MPI_CHAR, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double rss = field_kib("/proc/self/status", "VmRSS:"), pss = field_kib("/proc/self/smaps_rollup", "Pss:");
    if (is_start) report("memory_peak", field_kib("/proc/self/status", "VmHWM:"));
    else report("memory_rss", rss);
    report("memory_pss", pss);
    MPI_Finalize();
    return 0;
}
