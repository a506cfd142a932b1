/* Handles as Fortran's integers and back, by the names that old programs use. */
#include "check.h"

#define ROUND(kind, type, handle) \
    do { \
        type before_ = (handle), after_; \
        MPI_Fint integer_ = MPI_##kind##_c2f(before_); \
        after_ = MPI_##kind##_f2c(integer_); \
        CHECK(after_ == before_, #handle " is another handle as an integer and back"); \
    } while (0)

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    int value = 0, parent_rank = -1;
    check_start(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Info_create(&info));
    OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, comm, &request));
    ROUND(Comm, MPI_Comm, comm);
    ROUND(Comm, MPI_Comm, MPI_COMM_WORLD);
    ROUND(Group, MPI_Group, group);
    ROUND(Info, MPI_Info, info);
    ROUND(Request, MPI_Request, request);
    ROUND(Type, MPI_Datatype, MPI_DOUBLE);
    ROUND(Op, MPI_Op, MPI_SUM);
    ROUND(Errhandler, MPI_Errhandler, MPI_ERRORS_RETURN);
    ROUND(File, MPI_File, MPI_FILE_NULL);
    ROUND(Win, MPI_Win, MPI_WIN_NULL);
    ROUND(Message, MPI_Message, MPI_MESSAGE_NULL);
    OK(MPI_Comm_rank(MPI_Comm_f2c(MPI_Comm_c2f(comm)), &parent_rank));
    CHECK(parent_rank == check_rank, "rank %d", parent_rank);
    OK(MPI_Request_free(&request));
    OK(MPI_Info_free(&info));
    OK(MPI_Group_free(&group));
    /* What programs ask before anything else. */
    MPI_Comm parent = comm;
    int topology = 0;
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL, "a process that nobody spawned has a parent");
    OK(MPI_Topo_test(comm, &topology));
    CHECK(topology == MPI_UNDEFINED, "a duplicate has topology %d", topology);
    OK(MPI_Comm_free(&comm));
    return check_end();
}
