/* MPI_Sendrecv around a ring of all ranks (with two ranks: an exchange). µs per call. */
#include "bench.h"

struct ring { char *out, *in; int bytes; };

static void turn(void *context, int repetitions)
{
    struct ring *r = context;
    int right = (bench_rank + 1) % bench_size, left = (bench_rank + bench_size - 1) % bench_size;
    for (int i = 0; i < repetitions; i++)
        MPI_Sendrecv(r->out, r->bytes, MPI_CHAR, right, 5, r->in, r->bytes, MPI_CHAR, left, 5, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    for (size_t i = 0; i < BENCH_SIZES; i++) {
        int bytes = bench_sizes[i];
        if (!bench_wants(bytes)) continue;
        struct ring r = {bench_buffer((size_t)bytes), bench_buffer((size_t)bytes), bytes};
        bench_result("sendrecv", (size_t)bytes, bench_measure(turn, &r) * 1e6, "us");
        free(r.out);
        free(r.in);
    }
    MPI_Finalize();
    return 0;
}
