/* An error handler whose own calls fail: the codes are returned to it, and it is not called for them. */
#include "check.h"

static int calls, inner_class, of_other;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    if (calls++ > 100) MPI_Abort(MPI_COMM_WORLD, 9);
    MPI_Error_class(MPI_Comm_rank(MPI_COMM_WORLD, NULL), &inner_class);
    MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER); /* asked for, so it is called */
}

static void on_other(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    of_other++;
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler, other;
    check_start(&argc, &argv);
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_create_errhandler(on_other, &other));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, other));
    for (int i = 1; i <= 3; i++) {
        FAILS(MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
        CHECK(calls == i, "%d calls of the handler after %d errors", calls, i);
        CHECK(of_other == i, "%d calls of the other handler", of_other);
        CHECK(inner_class == MPI_ERR_ARG, "the inner error has class %d", inner_class);
    }
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Errhandler_free(&other));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    return check_end();
}
