/* Sessions before, while and after there is a world. */
#include "check.h"

static void use(MPI_Session session, const char *when)
{
    MPI_Group world;
    MPI_Comm all;
    int sum = -1, size = -1, one = 1;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    OK(MPI_Comm_create_from_group(world, when, MPI_INFO_NULL, MPI_ERRORS_RETURN, &all));
    OK(MPI_Comm_size(all, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK(sum == size, "%s: %d of %d", when, sum, size);
    OK(MPI_Comm_free(&all));
    OK(MPI_Group_free(&world));
}

/* What concerns no session, or none that there is, is raised on MPI_COMM_SELF. */
static void errors(MPI_Session session)
{
    MPI_Group group, others;
    MPI_Comm comm;
    char longest[MPI_MAX_STRINGTAG_LEN + 1];
    FAILS(MPI_Group_from_session_pset(MPI_SESSION_NULL, "mpi://WORLD", &group), MPI_ERR_SESSION);
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    FAILS(MPI_Comm_create_from_group(group, longest, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG);
    FAILS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP);
    FAILS(MPI_Intercomm_create_from_groups(group, 1, group, 0, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create_from_groups(group, 0, group, 0, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP);
    if (check_size > 1) {
        MPI_Group world;
        int other = (check_rank + 1) % check_size;
        OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
        OK(MPI_Group_incl(world, 1, &other, &others));
        FAILS(MPI_Comm_create_from_group(others, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP);
        OK(MPI_Group_free(&others));
        OK(MPI_Group_free(&world));
    }
    OK(MPI_Group_free(&group));
}

int main(int argc, char **argv)
{
    MPI_Session before, later, meanwhile;
    int flag = -1, result;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &before));
    use(before, "before");
    OK(MPI_Session_finalize(&before));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &later));
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &meanwhile));
    use(meanwhile, "meanwhile");
    use(later, "meanwhile");
    OK(MPI_Session_finalize(&meanwhile));
    FAILS(MPI_Session_finalize(&meanwhile), MPI_ERR_SESSION);
    errors(later);
    FAILS(MPI_Init(&argc, &argv), MPI_ERR_OTHER);
    /* The verdict comes before the end; what fails after it gives another exit code. */
    result = check_end();
    check_errors = 0;
    OK(MPI_Finalized(&flag));
    CHECK(flag == 1, "the world has not ended");
    use(later, "after");
    OK(MPI_Session_finalize(&later));
    return result || check_errors;
}
