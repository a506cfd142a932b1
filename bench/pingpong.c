/* Latency: half a round trip between two ranks, one buffer per rank. µs.
 * BENCH_SIZE: only messages of so many bytes. */
#include "bench.h"

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 64, 256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10,
                                128 << 10, 256 << 10, 1 << 20, 4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!bench_wants(sizes[i])) continue;
        struct bench_ping p = {bench_buffer((size_t)sizes[i]), sizes[i]};
        bench_result("pingpong", (size_t)sizes[i], bench_measure(bench_ping_pong, &p) / 2 * 1e6, "us");
        free(p.buffer);
    }
    MPI_Finalize();
    return 0;
}
