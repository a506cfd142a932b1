/* Half a round trip of messages just longer than those that are sent at once: their receiver has the kernel
 * copy them. A buffer to send from and one to receive into. Microseconds. */
#include "bench.h"

#define BYTES (48 << 10)

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct bench_ping ping = {bench_buffer(BYTES), bench_buffer(BYTES), BYTES, 0, 0};
    bench_result("rendezvous", BYTES, bench_measure(bench_ping_pong, &ping) / 2 * 1e6, "us");
    free(ping.out);
    free(ping.in);
    MPI_Finalize();
    return 0;
}
