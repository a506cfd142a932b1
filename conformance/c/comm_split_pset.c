/* MPI_Comm_split_type guided by the name of a process set (MPI-5.0 §7.4.2): a communicator for each set of
 * that name. */
#include "check.h"

static void gives(const char *name, MPI_Comm wanted)
{
    MPI_Comm comm;
    MPI_Info info;
    int relation = MPI_UNEQUAL;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_pset_name", name));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm));
    OK(MPI_Info_free(&info));
    int is_null = comm == MPI_COMM_NULL;
    CHECK(is_null == (wanted == MPI_COMM_NULL), "%s gave %s", name, is_null ? "MPI_COMM_NULL" : "a communicator");
    if (is_null || wanted == MPI_COMM_NULL) return;
    OK(MPI_Comm_compare(comm, wanted, &relation));
    CHECK(relation == MPI_CONGRUENT, "%s gave others (%d)", name, relation);
    OK(MPI_Comm_free(&comm));
}

/* Every set of this process gives a communicator of as many members as the set has. */
static void all_sets(void)
{
    MPI_Session session;
    int count = 0;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN];
        int length = sizeof name, members = -1, size = -2;
        MPI_Group group;
        MPI_Comm comm;
        MPI_Info info;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name));
        OK(MPI_Group_from_session_pset(session, name, &group));
        OK(MPI_Group_size(group, &members));
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "mpi_pset_name", name));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm));
        if (comm != MPI_COMM_NULL) {
            OK(MPI_Comm_size(comm, &size));
            OK(MPI_Comm_free(&comm));
        }
        CHECK(size == members, "%s has %d members, its communicator %d", name, members, size);
        OK(MPI_Info_free(&info));
        OK(MPI_Group_free(&group));
    }
    OK(MPI_Session_finalize(&session));
}

static void in_another_order(void)
{
    MPI_Comm backwards, comm;
    MPI_Info info;
    int rank = -1;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_pset_name", "mpi://WORLD"));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backwards));
    OK(MPI_Comm_split_type(backwards, MPI_COMM_TYPE_RESOURCE_GUIDED, check_rank, info, &comm));
    if (comm != MPI_COMM_NULL) {
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Comm_free(&comm));
    }
    CHECK(rank == check_rank, "rank %d, though the key says %d", rank, check_rank);
    OK(MPI_Comm_free(&backwards));
    /* By hardware no process set guides; by both it is an error. */
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm));
    CHECK(comm == MPI_COMM_NULL, "a process set guides a split by hardware");
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm), MPI_ERR_INFO);
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    gives("mpi://WORLD", MPI_COMM_WORLD);
    gives("MPI://self", MPI_COMM_SELF);
    gives("mpi://NOBODY", MPI_COMM_NULL);
    all_sets();
    in_another_order();
    return check_end();
}
