/* EXPECT 17, output: the progress thread failed
 * A panic in the thread that makes progress while nobody calls ends the job with a message that names the thread. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    setenv("AYATORI_TEST_PANIC", "helper", 1);
    setenv("AYATORI_PROGRESS", "assisted", 1);
    check_start(&argc, &argv);
    if (check_size == 1) { /* alone there is no such thread */
        fprintf(stderr, "not the progress thread failed\n");
        return 17;
    }
    /* A long message that nobody receives is work to look after. */
    size_t bytes = 4 << 20;
    MPI_Request request;
    OK(MPI_Isend(check_alloc(bytes), (int)bytes, MPI_BYTE, (check_rank + 1) % check_size, 1, MPI_COMM_WORLD, &request));
    for (;;) pause();
}
