/* Memory that both ranks share, which one writes and the other reads after it: one block, microseconds. No
 * message
 * is sent meanwhile, and no rank waits for a line.
 *
 *   publish   a rank copies its own bytes to where the other has read before
 *   fetch     the other copies them to its own memory */
#include "bench.h"

#define BLOCKS 16
#define TURNS_MAX 2000
#define BLOCK_BYTES_MAX ((size_t)64 << 10)
/* Blocks are apart, and not in the order of their addresses: no prefetcher brings the next one. */
#define STRIDE (BLOCK_BYTES_MAX + 4096)
#define PLACE(block) ((size_t)((block) * 7 % BLOCKS) * STRIDE)

static double copy(char *to, size_t to_step, const char *from, size_t from_step, size_t bytes)
{
    double begin = MPI_Wtime();
    for (int block = 0; block < BLOCKS; block++) {
        memcpy(to + (to_step ? PLACE(block) : 0), from + (from_step ? PLACE(block) : 0), bytes);
        __asm__ volatile("" ::: "memory");
    }
    return (MPI_Wtime() - begin) / BLOCKS;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10};
    static double publish[TURNS_MAX], fetch[TURNS_MAX];
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    char *own = bench_buffer(BLOCK_BYTES_MAX), *shared;
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? BLOCKS * STRIDE : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &shared);
    if (bench_rank == 0) memset(shared, 0, BLOCKS * STRIDE);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int turns = 0, goes_on = 1;
        bench_near_probe();
        double end = MPI_Wtime() + bench_budget_s();
        while (turns < TURNS_MAX && goes_on) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (bench_rank == 0) publish[turns] = copy(shared, 1, own, 0, sizes[i]);
            MPI_Barrier(MPI_COMM_WORLD);
            if (bench_rank == 1) fetch[turns] = copy(own, 0, shared, 1, sizes[i]);
            turns++;
            goes_on = MPI_Wtime() < end;
            MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        double publish_s = bench_median(publish, turns), fetch_s = bench_median(fetch, turns);
        MPI_Bcast(&fetch_s, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
        bench_near_probe();
        bench_result("publish", sizes[i], publish_s * 1e6, "us");
        bench_result("fetch", sizes[i], fetch_s * 1e6, "us");
    }
    MPI_Win_free(&window);
    free(own);
    MPI_Finalize();
    return 0;
}
