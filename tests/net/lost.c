/* Two ranks talk until every rail between them is gone. Each then tries one operation after the other: all have to fail, each
 * and none may hang. Prints how long each took, and "No Errors" from both ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, errors;
static char *big;

static void check(const char *what, int code, double began)
{
    double took = MPI_Wtime() - began;
    char text[MPI_MAX_ERROR_STRING] = "success";
    int length;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
    fprintf(stderr, "rank %d: %s: %.3f s: %.70s\n", rank, what, took, text);
    if (code == MPI_SUCCESS) {
        errors++;
        printf("rank %d: %s: %s after %.1f s\n", rank, what, text, took);
    }
}

int main(int argc, char **argv)
{
    const int big_bytes = 64 << 20;
    int size, code = MPI_SUCCESS, other, word = 0;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    other = 1 - rank;
    big = calloc(1, (size_t)big_bytes);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    double began = 0;
    /* A long message each way, so that one is under way when the rails go. */
    while (code == MPI_SUCCESS) {
        began = MPI_Wtime();
        if (rank == 0) code = MPI_Send(big, big_bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD);
        else code = MPI_Recv(big, big_bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    check(rank == 0 ? "long send" : "long receive", code, began);
#define TRY(what, call) began = MPI_Wtime(); code = (call); check(what, code, began)
    TRY("short send", MPI_Send(&word, 1, MPI_INT, other, 2, MPI_COMM_WORLD));
    TRY("synchronous send", MPI_Ssend(&word, 1, MPI_INT, other, 2, MPI_COMM_WORLD));
    TRY("receive", MPI_Recv(&word, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TRY("receive from anybody", MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    code = MPI_Isend(big, big_bytes, MPI_CHAR, other, 3, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS) { TRY("non-blocking send", MPI_Wait(&request, MPI_STATUS_IGNORE)); }
    code = MPI_Irecv(big, big_bytes, MPI_CHAR, other, 3, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS) { TRY("non-blocking receive", MPI_Wait(&request, MPI_STATUS_IGNORE)); }
    TRY("probe", MPI_Probe(other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TRY("exchange", MPI_Sendrecv(&word, 1, MPI_INT, other, 5, &word, 1, MPI_INT, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    TRY("barrier", MPI_Barrier(MPI_COMM_WORLD));
    TRY("allreduce", MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    TRY("alltoall", MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, big, 1, MPI_INT, MPI_COMM_WORLD));
    if (!errors) printf("No Errors\n");
    fflush(NULL);
    began = MPI_Wtime();
    MPI_Finalize();
    fprintf(stderr, "rank %d: finalize: done\n", rank);
    return errors != 0;
}
