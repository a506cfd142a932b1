/* A communicator that one member revokes as soon as it has it was made at the others, too: the call that
 * makes it succeeds there, and what is made is revoked. */
#include "survive.h"

static const char *const names[] = {"dup", "split", "create", "create_group", "cart_create", "idup",
                                    "intercomm_create", "intercomm_merge"};

struct parents { MPI_Comm half, inter; MPI_Group group; };

static int make(int kind, const struct parents *parents, MPI_Comm *made)
{
    int code, dims[1] = {check_size}, periods[1] = {1};
    MPI_Request request;
    switch (kind) {
    case 0: return MPI_Comm_dup(MPI_COMM_WORLD, made);
    case 1: return MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank, made);
    case 2: return MPI_Comm_create(MPI_COMM_WORLD, parents->group, made);
    case 3: return MPI_Comm_create_group(MPI_COMM_WORLD, parents->group, 5, made);
    case 4: return MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, made);
    case 5:
        code = MPI_Comm_idup(MPI_COMM_WORLD, made, &request);
        return code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    case 6:
        return MPI_Intercomm_create(parents->half, 0, MPI_COMM_WORLD,
                                    check_rank < check_size / 2 ? check_size / 2 : 0, 0, made);
    default: return MPI_Intercomm_merge(parents->inter, check_rank >= check_size / 2, made);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
    struct parents parents;
    MPI_Comm comm = MPI_COMM_NULL;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &parents.group));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank >= check_size / 2, check_rank, &parents.half));
    OK(make(6, &parents, &parents.inter));
    for (int kind = 0; kind < 8; kind++)
        for (int round = 0; round < 20; round++) {
            int is_revoked = 0;
            OK(MPI_Barrier(MPI_COMM_WORLD));
            int code = make(kind, &parents, &comm);
            CHECK(code == MPI_SUCCESS, "%s: %s", names[kind], check_error_text(code));
            CHECK(comm != MPI_COMM_NULL, "%s: no communicator", names[kind]);
            if (check_rank == 0) OK(MPIX_Comm_revoke(comm));
            while (!is_revoked) OK(MPIX_Comm_is_revoked(comm, &is_revoked));
            OK(MPI_Comm_free(&comm));
        }
    OK(MPI_Comm_free(&parents.inter));
    OK(MPI_Comm_free(&parents.half));
    OK(MPI_Group_free(&parents.group));
    return survive_end(MPI_COMM_WORLD);
}
