/* Room in an attached buffer is free once a message is received, also where the word of that lies unread:
 * a barrier in shared memory reads no messages. Found by MPICH's threads/pt2pt/mt_ibsendirecv_huge. */
#include "check.h"
#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif
#include <unistd.h>

enum { BYTES = 64 << 10, MESSAGES = 4, ROUNDS = 20 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
#ifdef MPIX_AYATORI
    int provided;
    OK(MPIX_Progress_set(MPIX_PROGRESS_INLINE, &provided));
#endif
    int size = MESSAGES * (BYTES + MPI_BSEND_OVERHEAD);
    char *attached = malloc(size), *data = malloc(BYTES);
    OK(MPI_Buffer_attach(attached, size));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Request persistent;
    OK(MPI_Bsend_init(data, BYTES, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &persistent));
    for (int round = 0; round < ROUNDS; round++) {
        for (int message = 0; message < MESSAGES; message++) {
            memset(data, round + message, BYTES);
            if (check_rank == 0 && message % 2) {
                MPI_Request request;
                OK(MPI_Ibsend(data, BYTES, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            } else if (check_rank == 0 && round % 2) {
                OK(MPI_Bsend(data, BYTES, MPI_CHAR, 1, 5, MPI_COMM_WORLD));
            } else if (check_rank == 0) {
                OK(MPI_Start(&persistent));
                OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
            } else if (check_rank == 1) {
                memset(data, -1, BYTES);
                OK(MPI_Recv(data, BYTES, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK(data[0] == round + message && data[BYTES - 1] == round + message, "wrong data");
            }
        }
        /* As a rule the others are in the barrier first: it finds them there, and looks at nothing else. */
        if (check_rank == 0) usleep(2000);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Request_free(&persistent));
    void *detached;
    OK(MPI_Buffer_detach(&detached, &size));
    free(attached);
    free(data);
    return check_end();
}
