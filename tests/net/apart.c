/* Starts and ends MPI, and exchanges nothing. With an argument, errors of the world are returned. For tests
 * whose hosts have no way to each other. Prints "finalized" where MPI_Finalize returns. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Finalize() == MPI_SUCCESS) puts("finalized");
    return 0;
}
