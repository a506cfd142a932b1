/* Calls that do not wait give a request for a rank that has died, too, and on a revoked communicator: the
 * failure is told when that ends. */
#include "survive.h"

/* Every request that can be had, and how it ends. */
static void all_kinds(MPI_Comm comm, int victim, int expected)
{
    for (int kind = 0; kind < 4; kind++) {
        int sent = 1, received = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        switch (kind) {
        case 0: OK(MPI_Isend(&sent, 1, MPI_INT, victim, 1, comm, &request)); break;
        case 1: OK(MPI_Issend(&sent, 1, MPI_INT, victim, 1, comm, &request)); break;
        case 2: OK(MPI_Irecv(&received, 1, MPI_INT, victim, 1, comm, &request)); break;
        default:
            OK(MPI_Isendrecv(&sent, 1, MPI_INT, victim, 1, &received, 1, MPI_INT, victim, 1, comm, &request));
        }
        CHECK(request != MPI_REQUEST_NULL, "kind %d: no request", kind);
        FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), expected);
        CHECK(request == MPI_REQUEST_NULL, "kind %d: the request is still there", kind);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
    int victim = check_size - 1, value = 0;
    MPI_Comm comm, shrunk;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(comm));
    if (check_rank == victim) die();
    /* From here on it is known. */
    FAILS(MPI_Recv(&value, 1, MPI_INT, victim, 9, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    all_kinds(comm, victim, MPIX_ERR_PROC_FAILED);
    OK(MPIX_Comm_shrink(comm, &shrunk));
    OK(MPI_Barrier(shrunk));
    OK(MPIX_Comm_revoke(comm));
    all_kinds(comm, victim, MPIX_ERR_REVOKED);
    return survive_end(shrunk);
}
