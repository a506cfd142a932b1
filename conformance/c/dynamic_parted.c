/* EXPECT 37, output: No Errors
 * A started world that disconnects and then aborts is no matter of the one that started it: its collective
 * operations and its receives from anybody go on. The job's exit code is the abort's. */
#include "check.h"
#include <limits.h>
#include <unistd.h>

enum { ROUNDS = 500, ROUND_US = 1000 };

static void child(MPI_Comm parent)
{
    int mine = 1, sum = 0;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, parent));
    OK(MPI_Comm_disconnect(&parent));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) MPI_Abort(MPI_COMM_WORLD, 37);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    check_start(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        child(parent);
        return 1;
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    char own[PATH_MAX] = "";
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "where is this program?");
    OK(MPI_Comm_spawn(own, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    int mine = 1, sum = 0, got = -1;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK(sum == 2, "%d children", sum);
    MPI_Request request;
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request));
    OK(MPI_Comm_disconnect(&inter));
    /* Long enough that the end is noticed meanwhile. */
    for (int round = 0; round < ROUNDS && check_errors == 0; round++) {
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == check_size, "the sum is %d", sum);
        usleep(ROUND_US);
    }
    OK(MPI_Send(&check_rank, 1, MPI_INT, (check_rank + 1) % check_size, 7, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got == (check_rank + check_size - 1) % check_size, "a message of %d", got);
    return check_end();
}
