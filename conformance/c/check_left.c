/* EXPECT 0, output: at MPI_Finalize: 1 message not received, 2 requests, 1 communicator, 3 datatypes
 * Check mode says at the end what a program has not received, completed or freed. */
#include "check.h"

int main(int argc, char **argv)
{
    setenv("AYATORI_CHECK", "1", 1);
    check_start(&argc, &argv);
    MPI_Request requests[2];
    MPI_Comm comm;
    MPI_Datatype types[3];
    int data[3] = {0};
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Send(data, 0, MPI_INT, check_rank, 1, MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, check_rank, 2 + i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 3; i++) MPI_Type_contiguous(1 + i, MPI_INT, &types[i]);
    MPI_Finalize();
    return 0;
}
