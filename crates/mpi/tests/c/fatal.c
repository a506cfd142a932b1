/* One way to end a job for each argument. */
#include "check.h"

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rank;
    if (!strcmp(how, "before")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Init(NULL, NULL);
    if (!strcmp(how, "argument")) MPI_Comm_rank(MPI_COMM_WORLD, NULL);
    if (!strcmp(how, "handle")) MPI_Comm_rank((MPI_Comm)0x1234, &rank);
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 77);
    if (!strcmp(how, "raised")) MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_TOPOLOGY);
    MPI_Finalize();
    if (!strcmp(how, "after")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return 0;
}
