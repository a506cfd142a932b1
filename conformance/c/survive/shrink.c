/* Ranks die one after another in the middle of collective operations; those that are left revoke, shrink and
 * go on until two are left. */
#include "survive.h"

/* Shrinks without waiting in the call; the request is looked at before it is waited for, if so wished. */
static void ishrink(MPI_Comm comm, MPI_Comm *shrunk, int looks)
{
    MPI_Request request;
    OK(MPIX_Comm_ishrink(comm, shrunk, &request));
    CHECK(*shrunk != MPI_COMM_NULL, "no handle");
    for (int is_over = !looks; !is_over;) OK(MPI_Request_get_status(request, &is_over, MPI_STATUS_IGNORE));
    if (looks) {
        int size = -1;
        OK(MPI_Comm_size(*shrunk, &size));
        CHECK(size > 0 && size < check_size, "%d members", size);
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int victim = check_size - 1; victim >= 2 || victim == check_size - 1; victim--) {
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        CHECK(size == victim + 1, "%d ranks, not %d", size, victim + 1);
        for (int round = 0;; round++) {
            if (check_rank == victim && victim > 0 && round == 20) die();
            int sum = 0, one = 1;
            int code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
            if (lost(code)) break;
            CHECK(sum == size, "a sum of %d in round %d", sum, round);
            if (victim == 0) break;
        }
        if (victim == 0) break;
        int is_revoked = 0;
        OK(MPIX_Comm_revoke(comm));
        OK(MPIX_Comm_is_revoked(comm, &is_revoked));
        CHECK(is_revoked, "not revoked");
        FAILS(MPI_Barrier(comm), MPIX_ERR_REVOKED);
        FAILS(MPI_Send(&rank, 1, MPI_INT, 0, 0, comm), MPIX_ERR_REVOKED);

        MPI_Group failed, old, expected;
        int count = -1, acked = -1, result;
        OK(MPIX_Comm_get_failed(comm, &failed));
        MPI_Group_size(failed, &count);
        CHECK(count <= 1, "%d have failed", count);
        OK(MPIX_Comm_ack_failed(comm, count, &acked));
        CHECK(acked == count, "%d acknowledged of %d", acked, count);
        OK(MPI_Group_free(&failed));

        MPI_Comm shrunk;
        if (victim % 2 == 0) OK(MPIX_Comm_shrink(comm, &shrunk));
        else ishrink(comm, &shrunk, victim % 4 == 3);
        OK(MPI_Comm_group(comm, &old));
        int last = size - 1;
        OK(MPI_Group_excl(old, 1, &last, &expected));
        MPI_Group group;
        OK(MPI_Comm_group(shrunk, &group));
        OK(MPI_Group_compare(group, expected, &result));
        CHECK(result == MPI_IDENT, "not the group of those that live");
        OK(MPI_Group_free(&old));
        OK(MPI_Group_free(&group));
        OK(MPI_Group_free(&expected));
        OK(MPI_Comm_free(&comm));
        comm = shrunk;
    }
    return survive_end(comm);
}
