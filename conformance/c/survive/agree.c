/* Agreement: value and error are the same at all, whoever dies and whenever. One rank dies between
 * agreements, another while the others are in one. */
#include "survive.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int is_large = check_size >= 3;
    unsigned all = 0, outcomes[64];
    for (int round = 0; round < 64; round++) {
        int flag = ~(1 << (check_rank + round) % 31);
        if (is_large && round == 20 && check_rank == 0) die();
        if (is_large && round == 40 && check_rank == check_size - 1) {
            MPI_Request request;
            MPIX_Comm_iagree(comm, &flag, &request);
            die();
        }
        int code, class;
        if (round % 3) {
            code = MPIX_Comm_agree(comm, &flag);
        } else {
            MPI_Request request;
            OK(MPIX_Comm_iagree(comm, &flag, &request));
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Error_class(code, &class);
        CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED, "%s", check_error_text(code));
        CHECK(class == MPI_SUCCESS || (is_large && round >= 20), "fails in round %d", round);
        outcomes[round] = (unsigned)flag * 3 + (class != MPI_SUCCESS);
        all = all * 31 + outcomes[round];
        /* Those that are acknowledged by all do not count any more. */
        if (class != MPI_SUCCESS) OK(MPIX_Comm_failure_ack(comm));
    }
    MPI_Comm shrunk;
    OK(MPIX_Comm_shrink(comm, &shrunk));
    int size;
    MPI_Comm_size(shrunk, &size);
    CHECK(size == check_size - (is_large ? 2 : 0), "%d live", size);
    unsigned least = 0, most = 0;
    OK(MPI_Allreduce(&all, &least, 1, MPI_UNSIGNED, MPI_MIN, shrunk));
    OK(MPI_Allreduce(&all, &most, 1, MPI_UNSIGNED, MPI_MAX, shrunk));
    CHECK(least == most, "agreements differ");
    return survive_end(shrunk);
}
