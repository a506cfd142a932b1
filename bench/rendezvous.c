/* Messages that their receiver has the kernel copy, and of 8 B. A buffer to send from and one to receive
 * into. Microseconds.
 *
 *   rendezvous        half a round trip
 *   rendezvous_both   both ways at once (MPI_Sendrecv)
 *
 * A sender with nothing else under way may send long ones another way, if it measures that as quicker. So
 * each rank has a receive under way that no message matches; what that takes, it takes of 8 B, too. */
#include "bench.h"

#define BYTES (48 << 10)

static void both_ways(void *context, int repetitions)
{
    struct bench_ping *p = context;
    int other = 1 - bench_rank;
    for (int i = 0; i < repetitions; i++)
        MPI_Sendrecv(p->out, p->bytes, MPI_CHAR, other, 5, p->in, p->bytes, MPI_CHAR, other, 5,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct bench_ping ping = {bench_buffer(BYTES), bench_buffer(BYTES), BYTES, 0, 0};
    char nothing;
    MPI_Request unmatched;
    MPI_Irecv(&nothing, 1, MPI_CHAR, 1 - bench_rank, 8, MPI_COMM_WORLD, &unmatched);
    static const int sizes[] = {8, BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ping.bytes = sizes[i];
        bench_result("rendezvous", (size_t)ping.bytes, bench_measure(bench_ping_pong, &ping) / 2 * 1e6, "us");
        bench_result("rendezvous_both", (size_t)ping.bytes, bench_measure(both_ways, &ping) * 1e6, "us");
    }
    MPI_Cancel(&unmatched);
    MPI_Wait(&unmatched, MPI_STATUS_IGNORE);
    free(ping.out);
    free(ping.in);
    MPI_Finalize();
    return 0;
}
