/* Starts and ends MPI, and exchanges nothing: for tests whose hosts have no way to each other. With an
 * argument, errors of the world are returned; with the argument "receive", rank 0 then waits for a message
 * from any source and each other rank for one of rank 0, which none sends. Prints how that ends, and
 * "finalized" where MPI_Finalize returns. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static void receive(void)
{
    int rank, number = 0, class;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int source = rank == 0 ? MPI_ANY_SOURCE : 0;
    int error = MPI_Recv(&number, 1, MPI_INT, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (error == MPI_SUCCESS || MPI_Error_class(error, &class) != MPI_SUCCESS) return;
    printf("received: class %d\n", class);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 1 && strcmp(argv[1], "receive") == 0) receive();
    if (MPI_Finalize() == MPI_SUCCESS) puts("finalized");
    return 0;
}
