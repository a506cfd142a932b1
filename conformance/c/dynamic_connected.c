/* EXPECT 38, output: MPI_Abort
 * A started world that aborts while it is connected ends the one that started it, which waits for it. */
#include "check.h"
#include <limits.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    int value = 0;
    check_start(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        if (check_rank == 1) MPI_Abort(MPI_COMM_WORLD, 38);
        MPI_Barrier(MPI_COMM_WORLD);
        return 0;
    }
    char own[PATH_MAX] = "";
    if (readlink("/proc/self/exe", own, sizeof own - 1) <= 0) return 1;
    MPI_Comm_spawn(own, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Barrier(inter);
    MPI_Recv(&value, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
    printf("not reached\n");
    return 0;
}
