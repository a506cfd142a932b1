/* Message rate: 64 messages of 8 bytes in flight, one way and both ways. Million messages per second. */
#include "bench.h"

#define WINDOW 64
#define BYTES 8

static char out[WINDOW][BYTES], in[WINDOW][BYTES];

static void one_way(void *context, int repetitions)
{
    MPI_Request requests[WINDOW];
    char answer = 0;
    (void)context;
    for (int i = 0; i < repetitions; i++) {
        for (int w = 0; w < WINDOW; w++) {
            if (bench_rank == 0)
                MPI_Isend(out[w], BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(in[w], BYTES, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (bench_rank == 0)
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
}

static void both_ways(void *context, int repetitions)
{
    MPI_Request requests[2 * WINDOW];
    int other = 1 - bench_rank;
    (void)context;
    for (int i = 0; i < repetitions; i++) {
        for (int w = 0; w < WINDOW; w++)
            MPI_Irecv(in[w], BYTES, MPI_CHAR, other, 3, MPI_COMM_WORLD, &requests[w]);
        for (int w = 0; w < WINDOW; w++)
            MPI_Isend(out[w], BYTES, MPI_CHAR, other, 3, MPI_COMM_WORLD, &requests[WINDOW + w]);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    bench_result("rate", BYTES, WINDOW / bench_measure(one_way, NULL) * 1e-6, "Mmsg/s");
    bench_result("birate", BYTES, 2 * WINDOW / bench_measure(both_ways, NULL) * 1e-6, "Mmsg/s");
    MPI_Finalize();
    return 0;
}
