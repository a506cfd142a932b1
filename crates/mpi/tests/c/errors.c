/* Error codes, handlers, and which handler gets what. */
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void remember(MPI_Comm *comm, int *code, ...)
{
    int rank;
    calls++;
    last_code = *code;
    last_comm = *comm;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank)); /* a handler may call MPI */
}

static void on_session(MPI_Session *session, int *code, ...) { (void)session; (void)code; }

int main(void)
{
    int class_, code, length, is, rank;
    int *last_used, flag;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler handler, other, got;

    OK(MPI_Add_error_class(&class_)); CHECK(class_ > MPI_ERR_LASTCODE);
    start();
    OK(MPI_Add_error_code(class_, &code));
    OK(MPI_Error_class(code, &is)); CHECK(is == class_);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last_used, &flag)); CHECK(flag && *last_used == code);
    OK(MPI_Error_string(code, text, &length)); CHECK(length == 0 && text[0] == 0);
    OK(MPI_Add_error_string(code, "out of tea"));
    OK(MPI_Error_string(code, text, &length)); CHECK(length == 10 && !strcmp(text, "out of tea"));
    FAILS(MPI_ERR_ARG, MPI_Add_error_string(MPI_ERR_TAG, "mine"));
    FAILS(MPI_ERR_ARG, MPI_Remove_error_class(class_));
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code)); CHECK(*last_used == class_);
    OK(MPI_Remove_error_class(class_)); CHECK(*last_used == MPI_ERR_LASTCODE);
    for (int i = MPI_SUCCESS; i <= MPI_ERR_ABI; i++) {
        OK(MPI_Error_string(i, text, &length)); CHECK(length > 0 && (int)strlen(text) == length);
        OK(MPI_Error_class(i, &is)); CHECK(is == i);
    }
    FAILS(MPI_ERR_ARG, MPI_Error_class(999, &is));
    FAILS(MPI_ERR_ARG, MPI_Error_string(-1, text, &length));

    OK(MPI_Comm_create_errhandler(remember, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got)); CHECK(got == handler);
    OK(MPI_Errhandler_free(&got)); CHECK(got == MPI_ERRHANDLER_NULL);
    other = handler;
    OK(MPI_Errhandler_free(&other)); /* the communicator still uses it */
    FAILS(MPI_ERR_ARG, MPI_Comm_size(MPI_COMM_WORLD, NULL));
    CHECK(calls == 1 && last_code == MPI_ERR_ARG && last_comm == MPI_COMM_WORLD);
    OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER));
    CHECK(calls == 2 && last_code == MPI_ERR_OTHER);
    /* An error of no object, or of a bad handle, is MPI_COMM_SELF's. */
    FAILS(MPI_ERR_COMM, MPI_Comm_rank(MPI_COMM_NULL, &rank)); CHECK(calls == 2);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_COMM, MPI_Comm_rank(MPI_COMM_NULL, &rank)); CHECK(calls == 3 && last_comm == MPI_COMM_SELF);
    FAILS(MPI_ERR_COMM, MPI_Comm_rank((MPI_Comm)0x7777, &rank)); CHECK(calls == 4);
    FAILS(MPI_ERR_COMM, MPI_Comm_rank((MPI_Comm)MPI_INFO_ENV, &rank)); CHECK(calls == 5);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)); /* the last user of `handler` */
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL));

    OK(MPI_Session_create_errhandler(on_session, &handler));
    FAILS(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    OK(MPI_Errhandler_free(&handler));
    FAILS(MPI_ERR_ERRHANDLER, MPI_Errhandler_free(&handler));
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &handler)); CHECK(handler == MPI_ERRORS_RETURN);
    FAILS(MPI_ERR_FILE, MPI_File_get_errhandler((MPI_File)5, &handler));
    return finish();
}
