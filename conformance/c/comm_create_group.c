/* MPI_Comm_create_group by overlapping groups, one after another with the same tag. */
#include "check.h"

static MPI_Comm make(MPI_Group world, int first, int second)
{
    int ranks[2] = {first, second};
    MPI_Group pair;
    MPI_Comm comm;
    OK(MPI_Group_incl(world, 2, ranks, &pair));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, pair, 7, &comm));
    OK(MPI_Group_free(&pair));
    return comm;
}

/* Each member tells the other its rank in the world. */
static void exchange(MPI_Comm comm, int other)
{
    int rank = -1, got = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, 1 - rank, 0, &got, 1, MPI_INT, 1 - rank, 0, comm, MPI_STATUS_IGNORE));
    CHECK(got == other, "the other member is %d, not %d", got, other);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    MPI_Group world;
    MPI_Comm comm;
    int go = 0;
    check_start(&argc, &argv);
    CHECK_NEED(3);
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int round = 0; round < 20; round++) {
        /* 2 makes {1, 2}, then {0, 2}; what 0 sends for the second is there before what 1 sends for the first. */
        if (check_rank == 0) {
            comm = make(world, 0, 2);
            OK(MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
            exchange(comm, 2);
        } else if (check_rank == 1) {
            OK(MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            exchange(make(world, 1, 2), 2);
        } else if (check_rank == 2) {
            comm = make(world, 1, 2);
            exchange(comm, 1);
            exchange(make(world, 0, 2), 0);
        }
    }
    OK(MPI_Group_free(&world));
    return check_end();
}
