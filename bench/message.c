/* Messages to and fro between two ranks, with a buffer to send from and one to receive into: microseconds.
 *
 *   message   half a round trip
 *
 * Packets of these lengths are measured without messages, too (packets.c): the rest is the library's
 * software. None of these lengths but 8 B is compared with a prediction. */
#include "bench.h"

#define LONGEST (24 << 10)

int main(int argc, char **argv)
{
    static const int sizes[] = {8,    40,      56,      80,      96,       160,    320, 400,
                                640,  1536,    3 << 10, 6 << 10, 12 << 10, LONGEST};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct bench_ping ping = {bench_buffer(LONGEST), bench_buffer(LONGEST), 0, 0, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ping.bytes = sizes[i];
        bench_result("message", (size_t)ping.bytes, bench_measure(bench_ping_pong, &ping) / 2 * 1e6, "us");
    }
    free(ping.out);
    free(ping.in);
    MPI_Finalize();
    return 0;
}
