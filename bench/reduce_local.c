/* A reduction's arithmetic without messages, both ranks at once: the same sums of doubles again and again.
 * GB/s of one operand. */
#include "bench.h"

struct operands { char *in, *inout; int bytes; };

static void reduce(void *context, int repetitions)
{
    struct operands *o = context;
    for (int i = 0; i < repetitions; i++)
        MPI_Reduce_local(o->in, o->inout, o->bytes / 8, MPI_DOUBLE, MPI_SUM);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20,
                                3 << 19, 2 << 20, 4 << 20};
    bench_start(&argc, &argv);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = (size_t)sizes[i];
        struct operands o = {bench_buffer(bytes), bench_buffer(bytes), sizes[i]};
        memset(o.in, 0, bytes); /* sums stay zero: no denormals, no infinities */
        memset(o.inout, 0, bytes);
        bench_result("reduce_local", bytes, (double)bytes / bench_measure(reduce, &o) * 1e-9, "GB/s");
        free(o.in);
        free(o.inout);
    }
    MPI_Finalize();
    return 0;
}
