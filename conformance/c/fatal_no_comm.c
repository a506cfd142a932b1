/* EXPECT non-zero, output: in MPI_COMM_WORLD, process
 * A fatal error that concerns no communicator names the process by its rank in MPI_COMM_WORLD. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Request bad;
    check_start(&argc, &argv);
    memset(&bad, 0x11, sizeof bad);
    if (check_rank == check_size - 1) MPI_Wait(&bad, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("not reached\n");
    return 0;
}
