/* EXPECT non-zero, output: MPI_ERR_RANK
 * The default handler ends the whole job, with a message that names the error. */
#include "check.h"

int main(int argc, char **argv)
{
    int value = 0;
    check_start(&argc, &argv);
    if (check_rank == check_size - 1) MPI_Send(&value, 1, MPI_INT, check_size + 3, 1, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* nobody sends */
    printf("not reached\n");
    return 0;
}
