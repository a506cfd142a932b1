/* Traffic of all kinds for ever, so that a kill finds a rank in the middle of anything. For `cargo xtask killtest`. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (1 << 20)

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = malloc(LARGE), *in = malloc(LARGE);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    memset(out, rank, LARGE);
    for (;;) {
        double sum = 0, one = 1;
        MPI_Request requests[2];
        MPI_Sendrecv(out, 64, MPI_CHAR, right, 1, in, 64, MPI_CHAR, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(in, LARGE, MPI_CHAR, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, LARGE, MPI_CHAR, right, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(in, LARGE / 4, MPI_CHAR, size - 1, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
