/* EXPECT 9, output: called MPI_Abort with error code 9
 * A reduction function may call MPI_Abort, whatever the thread level (MPI-5.0, 6.9.5). */
#include "check.h"

static void refuse(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
    MPI_Abort(MPI_COMM_WORLD, 9);
}

int main(int argc, char **argv)
{
    int provided, one = 1, sum = 0;
    MPI_Op op;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (check_size == 1) MPI_Abort(MPI_COMM_WORLD, 9); /* nothing to reduce */
    MPI_Op_create(refuse, 1, &op);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
