/* EXPECT 5
 * A rank that leaves without MPI_Finalize ends the job; its exit code is the launcher's. */
#include "check.h"

int main(int argc, char **argv)
{
    int value = 0;
    check_start(&argc, &argv);
    if (check_rank == 0) exit(5);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("not reached\n");
    return 0;
}
