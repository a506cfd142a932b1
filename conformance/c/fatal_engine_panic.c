/* EXPECT 17, output: the engine's thread failed
 * A panic in the thread of mode offload ends the job with a message that names the thread. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    setenv("AYATORI_TEST_PANIC", "engine", 1);
    setenv("AYATORI_PROGRESS", "offload", 1);
    check_start(&argc, &argv);
    if (check_size == 1) { /* alone there is no such thread */
        fprintf(stderr, "not the engine's thread failed\n");
        return 17;
    }
    for (;;) pause();
}
