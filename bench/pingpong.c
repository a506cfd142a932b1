/* Latency: half a round trip between two ranks, one buffer per rank. µs.
 * BENCH_SIZE: only messages of so many bytes. */
#include "bench.h"

struct ping { char *buffer; int bytes; };

static void turn(void *context, int repetitions)
{
    struct ping *p = context;
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) {
            MPI_Send(p->buffer, p->bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(p->buffer, p->bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(p->buffer, p->bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(p->buffer, p->bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 64, 256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10,
                                128 << 10, 256 << 10, 1 << 20, 4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    const char *only = getenv("BENCH_SIZE");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (only && atoi(only) != sizes[i]) continue;
        struct ping p = {bench_buffer((size_t)sizes[i]), sizes[i]};
        bench_result("pingpong", (size_t)sizes[i], bench_measure(turn, &p) / 2 * 1e6, "us");
        free(p.buffer);
    }
    MPI_Finalize();
    return 0;
}
