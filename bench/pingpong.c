/* Latency: half a round trip between two ranks, in four forms. µs.
 *
 *   pingpong            what was received is sent back from where it lies: one buffer a rank
 *   pingpong_separate   a buffer to send from and one to receive into, as OSU's and the Intel MPI Benchmarks have
 *   pingpong_malloc     the same, 16 bytes behind a page's beginning, which is where malloc puts long blocks
 *   pingpong_uncached   as pingpong_separate, and each turn uses memory that is in no cache
 *
 * Usage: pingpong [NAME …]; with names, only those. BENCH_SIZE: only messages of so many bytes. */
#include "bench.h"

static int args_count;
static char **args;

static void measure(const char *name, struct bench_ping *ping)
{
    if (!bench_wants_name(args_count, args, name)) return;
    bench_result(name, (size_t)ping->bytes, bench_measure(bench_ping_pong, ping) / 2 * 1e6, "us");
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    args_count = argc;
    args = argv;
    size_t span = bench_uncached_span(), behind = 16;
    char *out = bench_buffer(span + behind), *in = bench_buffer(span + behind);
    for (size_t i = 0; i < BENCH_SIZES; i++) {
        int bytes = bench_sizes[i];
        if (!bench_wants(bytes)) continue;
        /* The next turn's memory is not what a prefetcher brings after this turn's. */
        size_t step = ((size_t)bytes + 3 * 4096) / 4096 * 4096;
        struct bench_ping same = {in, in, bytes, 0, 0}, separate = {out, in, bytes, 0, 0};
        struct bench_ping malloced = {out + behind, in + behind, bytes, 0, 0};
        struct bench_ping uncached = {out, in, bytes, step, span};
        measure("pingpong", &same);
        measure("pingpong_separate", &separate);
        measure("pingpong_malloc", &malloced);
        measure("pingpong_uncached", &uncached);
    }
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
