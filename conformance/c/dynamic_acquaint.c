/* MPI_Intercomm_create over processes that have never met: each of two ranks starts a world of its own,
 * and the pairs of a starter and its world meet. Their leaders know each other, the started ones do not.
 * All talk to all then. */
#include "check.h"
#include <limits.h>
#include <unistd.h>

enum { CHILDREN = 2, LONG_INTS = 100000 };

/* Each member of a group sends to each of the other, a short message and a long one. */
static void talk(MPI_Comm inter, int mine)
{
    int size, rank;
    int *out = check_alloc(LONG_INTS * sizeof *out), *in = check_alloc(LONG_INTS * sizeof *in);
    MPI_Status status;
    OK(MPI_Comm_remote_size(inter, &size));
    OK(MPI_Comm_rank(inter, &rank));
    CHECK(size == CHILDREN + 1, "a remote group of %d", size);
    for (int i = 0; i < LONG_INTS; i++) out[i] = mine + i;
    for (int length = 1; length <= LONG_INTS; length += LONG_INTS - 1)
        for (int shift = 0; shift < size; shift++) {
            int to = (rank + shift) % size, from = (rank + size - shift) % size;
            OK(MPI_Sendrecv(out, length, MPI_INT, to, 3, in, length, MPI_INT, from, 3, inter, &status));
            CHECK_STATUS(status, from, 3, (size_t)length * sizeof(int));
            int last = in[length - 1];
            CHECK(last % 1000 == (from + length - 1) % 1000, "%d came from rank %d", last, from);
        }
    free(out);
    free(in);
}

/* All of one pair's processes: the starter is rank 0 of `all`. */
static void meet(MPI_Comm all, int pair)
{
    MPI_Comm inter, both;
    int rank, size, sum = 0, one = 1;
    OK(MPI_Comm_rank(all, &rank));
    /* Ranks 0 and 1 of the first world are the leaders. */
    OK(MPI_Intercomm_create(all, 0, MPI_COMM_WORLD, 1 - pair, 12, &inter));
    talk(inter, 1000 * pair + rank);
    OK(MPI_Intercomm_merge(inter, pair, &both));
    OK(MPI_Comm_size(both, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both));
    CHECK(size == 2 * (CHILDREN + 1) && sum == size, "%d together, of whom %d speak", size, sum);
    OK(MPI_Comm_free(&both));
    OK(MPI_Comm_disconnect(&inter));
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, all;
    char own[PATH_MAX] = "", *arguments[] = {NULL, NULL}, number[8];
    check_start(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Intercomm_merge(parent, 1, &all));
        meet(all, atoi(argv[1]));
        OK(MPI_Comm_free(&all));
        OK(MPI_Comm_disconnect(&parent));
        int code = check_errors;
        MPI_Finalize();
        return code != 0;
    }
    CHECK_NEED(2);
    if (check_rank < 2) {
        CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "where is this program?");
        snprintf(number, sizeof number, "%d", check_rank);
        arguments[0] = number;
        OK(MPI_Comm_spawn(own, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                          MPI_ERRCODES_IGNORE));
        OK(MPI_Intercomm_merge(inter, 0, &all));
        meet(all, check_rank);
        OK(MPI_Comm_free(&all));
        OK(MPI_Comm_disconnect(&inter));
    }
    return check_end();
}
