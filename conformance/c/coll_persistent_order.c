/* Persistent collective operations match in the order in which they were made, whatever the order of starts. */
#include "check.h"

enum { OPERATIONS = 3, COUNT = 300 };

static int values[OPERATIONS][COUNT];
static MPI_Request requests[OPERATIONS];

static void fill(int round)
{
    for (int which = 0; which < OPERATIONS; which++)
        for (int i = 0; i < COUNT; i++) values[which][i] = check_rank == 0 ? 1000 * round + which : -1;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int which = 0; which < OPERATIONS; which++)
        OK(MPI_Bcast_init(values[which], COUNT, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[which]));
    for (int round = 0; round < 10; round++) {
        fill(round);
        /* Each rank begins with another one; a collective operation that is not persistent comes in between. */
        for (int i = 0; i < OPERATIONS; i++) {
            OK(MPI_Start(&requests[(i + check_rank) % OPERATIONS]));
            if (i == 0) OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        OK(MPI_Waitall(OPERATIONS, requests, MPI_STATUSES_IGNORE));
        for (int which = 0; which < OPERATIONS; which++)
            for (int i = 0; i < COUNT; i += COUNT - 1)
                CHECK(values[which][i] == 1000 * round + which, "round %d: operation %d brought %d", round, which,
                      values[which][i]);
    }
    /* One under way is not freed, and is still there to be waited for. */
    fill(0);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Start(&requests[0]));
    FAILS(MPI_Request_free(&requests[0]), MPI_ERR_REQUEST);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK(values[0][COUNT - 1] == 0, "brought %d", values[0][COUNT - 1]);
    for (int which = 0; which < OPERATIONS; which++) OK(MPI_Request_free(&requests[which]));
    return check_end();
}
