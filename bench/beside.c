/* Ranks beside programs that compute on the same CPUs (`cargo xtask bench --only beside` starts them): what
 * a rank that waits costs when it yields its CPU, or sleeps. µs.
 *
 *   beside_pingpong   8 bytes, one way, between ranks 0 and 1
 *   beside_barrier    all ranks */
#include "bench.h"

#define BYTES 8

static void barriers(void *context, int repetitions)
{
    (void)context;
    for (int i = 0; i < repetitions; i++) MPI_Barrier(MPI_COMM_WORLD);
}

/* The other ranks go on to the next collective call, and wait there. */
static void ping_pongs(void *context, int repetitions)
{
    if (bench_rank < 2) bench_ping_pong(context, repetitions);
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    struct bench_ping ping = {bench_buffer(BYTES), bench_buffer(BYTES), BYTES, 0, BYTES};
    bench_result("beside_pingpong", BYTES, bench_measure(ping_pongs, &ping) * 1e6 / 2, "us");
    bench_result("beside_barrier", 0, bench_measure(barriers, NULL) * 1e6, "us");
    free(ping.out);
    free(ping.in);
    MPI_Finalize();
    return 0;
}
