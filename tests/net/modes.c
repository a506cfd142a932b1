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

/* Microseconds one way, in a mode. */
static double block(struct bench_ping *ping, int mode)
{
    int now;
    MPIX_Progress_set(mode, &now);
    if (now != mode) {
        fprintf(stderr, "asked for progress mode %d, got %d\n", mode, now);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bench_time(bench_ping_pong, ping, WARM_TURNS);
    return bench_time(bench_ping_pong, ping, TURNS) / TURNS / 2 * 1e6;
}

int main(int argc, char **argv)
{
    static double inlined[PAIRS], assisted[PAIRS], ratios[PAIRS];
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    char *buffer = bench_buffer(8);
    struct bench_ping ping = {buffer, buffer, 8, 0, 0};
    for (int i = 0; i < PAIRS; i++) {
        /* Which comes first changes from pair to pair: a machine that gets slower favours neither. */
        if (i % 2) assisted[i] = block(&ping, MPIX_PROGRESS_ASSISTED);
        inlined[i] = block(&ping, MPIX_PROGRESS_INLINE);
        if (i % 2 == 0) assisted[i] = block(&ping, MPIX_PROGRESS_ASSISTED);
        ratios[i] = assisted[i] / inlined[i];
    }
    bench_result("inline", 8, bench_median(inlined, PAIRS), "us");
    bench_result("assisted", 8, bench_median(assisted, PAIRS), "us");
    bench_result("assisted/inline", 8, bench_median(ratios, PAIRS), "times");
    free(buffer);
    MPI_Finalize();
    return 0;
}
