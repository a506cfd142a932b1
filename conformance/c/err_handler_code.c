/* A handler may change the code that it is given: the call that raised the error returns what it leaves there
 * (MPI-5.0 9.3: "the error code to be returned by the MPI routine that raised the error"). */
#include "check.h"

static int calls, leaves, keeps, told;

static void on_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    calls++;
    told = *code;
    if (!keeps) *code = leaves;
}

static void on_file(MPI_File *file, int *code, ...)
{
    (void)file;
    calls++;
    *code = leaves;
}

/* A call for several requests returns MPI_ERR_IN_STATUS, and its handler is told the code of the request that
 * has failed (MPI-5.0 9.3.1). */
static void several(MPI_Comm comm)
{
    keeps = 1;
    for (int way = 0; way < 4; way++) {
        int one = 0, two[2] = {1, 2}, flag = 0, count = 0, index, class, code, before = calls;
        MPI_Request request;
        MPI_Status status;
        OK(MPI_Irecv(&one, 1, MPI_INT, check_rank, 4, comm, &request));
        OK(MPI_Send(two, 2, MPI_INT, check_rank, 4, comm));
        switch (way) {
        case 0: code = MPI_Waitall(1, &request, &status); break;
        case 1:
            do code = MPI_Testall(1, &request, &flag, &status);
            while (code == MPI_SUCCESS && !flag);
            break;
        case 2: code = MPI_Waitsome(1, &request, &count, &index, &status); break;
        default:
            do code = MPI_Testsome(1, &request, &count, &index, &status);
            while (code == MPI_SUCCESS && count == 0);
        }
        MPI_Error_class(told, &class);
        CHECK(code == MPI_ERR_IN_STATUS, "way %d returns %s", way, check_error_text(code));
        CHECK(class == MPI_ERR_TRUNCATE && calls == before + 1, "way %d: told %s, %d calls", way,
              check_error_text(told), calls - before);
    }
    keeps = 0;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Errhandler of_comms, of_files;
    OK(MPI_Comm_create_errhandler(on_comm, &of_comms));
    OK(MPI_File_create_errhandler(on_file, &of_files));
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, of_comms));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, of_files));
    OK(MPI_Errhandler_free(&of_comms));
    OK(MPI_Errhandler_free(&of_files));
    int value = 0, wanted[] = {MPI_SUCCESS, MPI_ERR_OTHER};
    for (int i = 0; i < 2; i++) {
        leaves = wanted[i];
        int code = MPI_Send(&value, 1, MPI_INT, check_size, 0, comm);
        CHECK(code == leaves && calls == 2 * i + 1, "code %d after %d calls", code, calls);
        MPI_File file;
        code = MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        CHECK(code == leaves && calls == 2 * i + 2, "code %d after %d calls", code, calls);
    }
    several(comm);
    OK(MPI_Comm_free(&comm));
    calls = 4;

    /* What is to be made has the handler already. */
    MPI_Session session;
    MPI_Group group;
    leaves = MPI_ERR_OTHER;
    OK(MPI_Comm_create_errhandler(on_comm, &of_comms));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    int code = MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, of_comms, NULL);
    CHECK(code == leaves && calls == 5, "code %d after %d calls", code, calls);
    FAILS(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL), MPI_ERR_ARG);
    OK(MPI_Comm_create_from_group(group, "tag", MPI_INFO_NULL, of_comms, &comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Errhandler_free(&of_comms));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    return check_end();
}
