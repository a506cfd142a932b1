/* An error that concerns no communicator goes to the handler of MPI_COMM_SELF (MPI-5.0, 9.3). Before MPI 4.0 it was
 * MPI_COMM_WORLD's: a program that sets only that one gets it. */
#include "check.h"

static int of_world;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    of_world += *comm == MPI_COMM_WORLD;
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    check_start(&argc, &argv);
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    FAILS(MPI_Type_free(&none), MPI_ERR_TYPE);
    CHECK(of_world == 1, "%d calls of MPI_COMM_WORLD's handler", of_world);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Type_free(&none), MPI_ERR_TYPE);
    CHECK(of_world == 1, "%d calls after MPI_COMM_SELF's was set", of_world);
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    return check_end();
}
