/* Messages: what needs a rank that has died fails, what does not goes on; a receive from any source is
 * interrupted until the failure is acknowledged; revoking ends a receive that nobody answers. */
#include "survive.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(3);
    int victim = check_size - 1, value = 0;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(comm));
    if (check_rank == victim) die();

    if (check_rank == 0) {
        MPI_Request request;
        OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &request));
        FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
        CHECK(request != MPI_REQUEST_NULL, "the request is gone");
        int flag = 0;
        FAILS(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
        FAILS(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
        OK(MPIX_Comm_failure_ack(comm));
        MPI_Group acked;
        int count = 0;
        OK(MPIX_Comm_failure_get_acked(comm, &acked));
        MPI_Group_size(acked, &count);
        CHECK(count == 1, "%d acknowledged", count);
        OK(MPI_Group_free(&acked));
        OK(MPI_Send(&value, 1, MPI_INT, 1, 2, comm));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(value == 77, "%d came", value);
    } else if (check_rank == 1) {
        OK(MPI_Recv(&value, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE));
        value = 77;
        OK(MPI_Send(&value, 1, MPI_INT, 0, 1, comm));
    }
    FAILS(MPI_Recv(&value, 1, MPI_INT, victim, 9, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    while (!lost(MPI_Send(&value, 1, MPI_INT, victim, 9, comm)))
        ;

    if (check_rank == 0) {
        /* Not before all have seen the failure: some notice it seconds later. */
        for (int rank = 1; rank < victim; rank++)
            OK(MPI_Recv(&value, 1, MPI_INT, rank, 6, comm, MPI_STATUS_IGNORE));
        OK(MPIX_Comm_revoke(comm));
    } else {
        static char large[1 << 20];
        MPI_Request requests[2];
        MPI_Status statuses[2];
        /* Nobody sends the one, nor receives the other. */
        OK(MPI_Irecv(&value, 1, MPI_INT, 0, 5, comm, &requests[0]));
        OK(MPI_Isend(large, sizeof large, MPI_CHAR, 0, 5, comm, &requests[1]));
        OK(MPI_Send(&check_rank, 1, MPI_INT, 0, 6, comm));
        FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
        for (int i = 0; i < 2; i++) {
            int class, code = statuses[i].MPI_ERROR;
            MPI_Error_class(code, &class);
            /* It returns when one has failed; the other may fail a moment later (MPI-5.0 §3.7.5). */
            if (class == MPI_ERR_PENDING) {
                CHECK(requests[i] != MPI_REQUEST_NULL, "request %d goes on and is gone", i);
                code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
                MPI_Error_class(code, &class);
            }
            CHECK(class == MPIX_ERR_REVOKED, "request %d: class %d", i, class);
        }
    }
    MPI_Comm shrunk;
    OK(MPIX_Comm_shrink(comm, &shrunk));
    return survive_end(shrunk);
}
