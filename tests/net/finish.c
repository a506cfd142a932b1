/* Rank 0 gives long and short messages to MPI, gives their requests up, and ends at once; rank 1 receives them later and looks
 * at every word. For tests that cut a rail meanwhile. Prints "No Errors". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MESSAGES 40

static uint32_t word(int message, int i)
{
    uint32_t x = (uint32_t)message * 2654435761u ^ (uint32_t)i * 2246822519u;
    return x ^ x >> 15;
}

static int words(int message)
{
    return message % 3 ? 90000 + message : 1 + message * 37;
}

int main(int argc, char **argv)
{
    int rank, errors = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int m = 0; m < MESSAGES && rank == 0; m++) {
        uint32_t *buffer = malloc((size_t)words(m) * sizeof *buffer); /* lives until the end, and so does the send */
        MPI_Request request;
        for (int i = 0; i < words(m); i++) buffer[i] = word(m, i);
        MPI_Isend(buffer, words(m), MPI_UINT32_T, 1, m, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    for (int m = 0; m < MESSAGES && rank == 1; m++) {
        uint32_t *buffer = malloc((size_t)words(m) * sizeof *buffer);
        struct timespec time = {0, 5000000};
        nanosleep(&time, NULL);
        MPI_Recv(buffer, words(m), MPI_UINT32_T, 0, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < words(m); i++) errors += buffer[i] != word(m, i);
        free(buffer);
    }
    if (rank == 1) {
        if (errors) printf("%d wrong words\n", errors);
        else printf("No Errors\n");
    }
    MPI_Finalize();
    return errors != 0;
}
