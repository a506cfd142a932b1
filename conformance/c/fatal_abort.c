/* EXPECT 37
 * MPI_Abort ends the job while the others wait, and its code is the launcher's. */
#include "check.h"

int main(int argc, char **argv)
{
    int value = 0;
    check_start(&argc, &argv);
    if (check_rank == check_size / 2) MPI_Abort(MPI_COMM_WORLD, 37);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("not reached\n");
    return 0;
}
