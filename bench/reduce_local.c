/* A reduction's arithmetic without messages, all ranks at once: the same sums of doubles again and again.
 *
 *   reduce_local   of so many bytes, GB/s of one operand
 *   reduce_call    of none: what the call takes, microseconds */
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
    struct operands none = {NULL, NULL, 0};
    bench_result("reduce_call", 0, bench_measure(reduce, &none) * 1e6, "us");
    MPI_Finalize();
    return 0;
}
