// A C++ program may let its error handler throw: the exception passes through the library.
#include <mpi.h>
#include <cstdio>

static void throwing(MPI_Comm *, int *code, ...) { throw *code; }

int main()
{
    MPI_Errhandler handler;
    int size = 0;
    MPI_Init(nullptr, nullptr);
    MPI_Comm_create_errhandler(throwing, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    try {
        MPI_Comm_size(MPI_COMM_WORLD, nullptr);
        return 1;
    } catch (int code) {
        if (code != MPI_ERR_ARG) return 2;
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return size == 1 ? 0 : 3;
}
