/* Sessions after the world has ended that only some processes begin: the others exit, in order and without a word. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Group all, group;
    MPI_Comm comm;
    int sum = -1, size = -1, one = 1, half[3] = {0, 0, 1};
    check_start(&argc, &argv);
    int result = check_end(), count = (check_size + 1) / 2;
    check_errors = 0;
    if (check_rank >= count) {
        if (check_rank % 2) _exit(result);
        return result;
    }
    half[1] = count - 1;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    OK(MPI_Group_range_incl(all, 1, &half, &group));
    OK(MPI_Comm_create_from_group(group, "half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    for (int i = 0; i < 100; i++) OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    OK(MPI_Comm_size(comm, &size));
    CHECK(sum == size && size == count, "%d of %d", sum, size);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&all));
    OK(MPI_Session_finalize(&session));
    return result || check_errors;
}
