/* Errors of operations on a communicator that was freed meanwhile are its handler's (MPI-5.0, 7.4.3, 9.3).
 * MPI_COMM_SELF's handler, which ends the job, gets none of them. */
#include "check.h"

static char data[4];

/* A communicator that returns errors. */
static MPI_Comm returning(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return comm;
}

int main(int argc, char **argv)
{
    char got[2];
    int to, from, flag = 0, index;
    MPI_Comm comm, others[3];
    MPI_Request receives[2], sends[2], started;
    check_start(&argc, &argv);
    CHECK_NEED(2);
    to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    comm = returning();
    for (int i = 0; i < 2; i++) OK(MPI_Irecv(got, 2, MPI_BYTE, from, i, comm, &receives[i]));
    OK(MPI_Recv_init(got, 2, MPI_BYTE, from, 2, comm, &started));
    for (int i = 0; i < 2; i++) OK(MPI_Isend(data, 4, MPI_BYTE, to, i, comm, &sends[i]));
    OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
    OK(MPI_Send(data, 4, MPI_BYTE, to, 2, comm));
    OK(MPI_Comm_free(&comm));
    /* Others are made and freed before the errors are seen. */
    for (int i = 0; i < 3; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &others[i]));
    for (int i = 0; i < 3; i++) OK(MPI_Comm_free(&others[i]));
    FAILS(MPI_Wait(&receives[0], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    FAILS(MPI_Waitany(1, &receives[1], &index, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    OK(MPI_Start(&started));
    for (;;) {
        int code = MPI_Test(&started, &flag, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS && !flag) continue;
        FAILS(code, MPI_ERR_TRUNCATE);
        break;
    }
    OK(MPI_Request_free(&started));
    /* A call that is given the freed handle has no communicator: its error is MPI_COMM_SELF's. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    others[0] = comm;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_free(&comm));
    FAILS(MPI_Barrier(others[0]), MPI_ERR_COMM);
    return check_end();
}
