/* memcpy within a rank, both ranks at once. GB/s.
 *
 *   copy            the same bytes again and again
 *   copy_uncached   bytes that are in no cache */
#include "bench.h"

#define UNCACHED_MAX (64 << 10)

struct copy { char *from, *to; size_t bytes, step, span, at; };

static void copy(void *context, int repetitions)
{
    struct copy *c = context;
    for (int i = 0; i < repetitions; i++) {
        memcpy(c->to + c->at, c->from + c->at, c->bytes);
        __asm__ volatile("" ::: "memory"); /* each of them is done */
        c->at += c->step; /* goes on in the next call: what that begins with is in no cache, either */
        if (c->at + c->bytes > c->span) c->at = 0;
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20,
                                   3 << 19, 2 << 20, 4 << 20, 16 << 20};
    bench_start(&argc, &argv);
    size_t span = bench_uncached_span();
    char *from = bench_buffer(span), *to = bench_buffer(span);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i];
        struct copy same = {from, to, bytes, 0, 0, 0};
        struct copy uncached = {from, to, bytes, bytes + 8192, span, 0};
        bench_result("copy", bytes, (double)bytes / bench_measure(copy, &same) * 1e-9, "GB/s");
        if (bytes <= UNCACHED_MAX)
            if (bytes > UNCACHED_MAX) continue;
        bench_result("copy_uncached", bytes, (double)bytes / bench_measure(copy, &uncached) * 1e-9, "GB/s");
    }
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
