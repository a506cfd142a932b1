/* Messages in packets that are announced and answered first, and such that go at once: half a round trip.
 * Microseconds. Run it with AYATORI_SHM_CMA=0: the kernel is to copy none of them.
 *
 *   at_once     within the credit that a receiver gives
 *   announced   when all of that is used up */
#include "bench.h"

#define BYTES (32 << 10)
/* What uses up the credit of 256 KiB (`core/src/link`), of which a message takes 64 B for its header. */
#define UNREAD 16
#define UNREAD_BYTES ((16 << 10) - 64)

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    int other = 1 - bench_rank;
    struct bench_ping ping = {bench_buffer(BYTES), bench_buffer(BYTES), BYTES, 0, 0};
    char *unread = bench_buffer(UNREAD_BYTES);
    MPI_Request requests[UNREAD];
    MPI_Comm aside; /* where they are not in the way of those that are matched */
    MPI_Comm_dup(MPI_COMM_WORLD, &aside);
    bench_result("at_once", BYTES, bench_measure(bench_ping_pong, &ping) / 2 * 1e6, "us");
    for (int i = 0; i < UNREAD; i++)
        MPI_Isend(unread, UNREAD_BYTES, MPI_CHAR, other, 1, aside, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_result("announced", BYTES, bench_measure(bench_ping_pong, &ping) / 2 * 1e6, "us");
    for (int i = 0; i < UNREAD; i++)
        MPI_Recv(unread, UNREAD_BYTES, MPI_CHAR, other, 1, aside, MPI_STATUS_IGNORE);
    MPI_Waitall(UNREAD, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&aside);
    free(unread);
    free(ping.out);
    free(ping.in);
    MPI_Finalize();
    return 0;
}
