/* What progress mode assisted costs a ping-pong of 8 bytes beside mode inline, in one run: the mode is switched between blocks
 * of turns, so that a block of each lies within milliseconds of one of the other, and each such pair gives one ratio.
 *
 *     RESULT inline 8 <median of blocks> us        (half a round trip)
 *     RESULT assisted 8 <median of blocks> us
 *     RESULT assisted/inline 8 <median of the pairs' ratios> times */
#include "../../bench/bench.h"

#include <mpi-ext.h>

#define PAIRS 200
#define TURNS 3000
#define WARM_TURNS 300

static void turn(void *context, int repetitions)
{
    char *buffer = context;
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) {
            MPI_Send(buffer, 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(buffer, 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
        }
    }
}

/* Microseconds one way, in a mode. */
static double block(char *buffer, int mode)
{
    int now;
    MPIX_Progress_set(mode, &now);
    if (now != mode) {
        fprintf(stderr, "asked for progress mode %d, got %d\n", mode, now);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bench_time(turn, buffer, WARM_TURNS);
    return bench_time(turn, buffer, TURNS) / TURNS / 2 * 1e6;
}

int main(int argc, char **argv)
{
    static double inlined[PAIRS], assisted[PAIRS], ratios[PAIRS];
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    char *buffer = bench_buffer(8);
    for (int i = 0; i < PAIRS; i++) {
        /* Which comes first changes from pair to pair: a machine that gets slower favours neither. */
        if (i % 2) assisted[i] = block(buffer, MPIX_PROGRESS_ASSISTED);
        inlined[i] = block(buffer, MPIX_PROGRESS_INLINE);
        if (i % 2 == 0) assisted[i] = block(buffer, MPIX_PROGRESS_ASSISTED);
        ratios[i] = assisted[i] / inlined[i];
    }
    bench_result("inline", 8, bench_median(inlined, PAIRS), "us");
    bench_result("assisted", 8, bench_median(assisted, PAIRS), "us");
    bench_result("assisted/inline", 8, bench_median(ratios, PAIRS), "times");
    free(buffer);
    MPI_Finalize();
    return 0;
}
