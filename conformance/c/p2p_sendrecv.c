/* Sendrecv and Sendrecv_replace, and their non-blocking forms; to self, to MPI_PROC_NULL, unequal lengths. */
#include "check.h"

static int left, right;

static void exchange(int bytes, char *out, char *in, int immediate)
{
    int theirs = bytes / 2 + left % 3, mine = bytes / 2 + check_rank % 3;
    MPI_Request request;
    MPI_Status status;
    pattern_fill(out, (size_t)mine, (uint32_t)(check_rank + bytes));
    memset(in, 0, (size_t)bytes + 4);
    if (immediate) {
        OK(MPI_Isendrecv(out, mine, MPI_BYTE, right, 21, in, bytes + 4, MPI_BYTE, left, 21, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, &status));
    } else
        OK(MPI_Sendrecv(out, mine, MPI_BYTE, right, 21, in, bytes + 4, MPI_BYTE, left, MPI_ANY_TAG, MPI_COMM_WORLD,
                        &status));
    CHECK_STATUS(status, left, 21, theirs);
    CHECK(pattern_wrong(in, (size_t)theirs, (uint32_t)(left + bytes)) < 0, "wrong data at %d bytes", bytes);
}

static void replace(int bytes, char *buffer, int immediate)
{
    MPI_Request request;
    MPI_Status status;
    pattern_fill(buffer, (size_t)bytes, (uint32_t)(check_rank * 7 + bytes));
    if (immediate) {
        OK(MPI_Isendrecv_replace(buffer, bytes, MPI_BYTE, right, 22, left, 22, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, &status));
    } else
        OK(MPI_Sendrecv_replace(buffer, bytes, MPI_BYTE, right, 22, left, 22, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, left, 22, bytes);
    CHECK(pattern_wrong(buffer, (size_t)bytes, (uint32_t)(left * 7 + bytes)) < 0, "wrong data at %d bytes", bytes);
}

/* A chain with open ends: MPI_PROC_NULL on both. */
static void chain(void)
{
    int up = check_rank + 1 < check_size ? check_rank + 1 : MPI_PROC_NULL;
    int down = check_rank > 0 ? check_rank - 1 : MPI_PROC_NULL;
    int out = 50 + check_rank, in = -1;
    MPI_Status status;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, up, 23, &in, 1, MPI_INT, down, 23, MPI_COMM_WORLD, &status));
    CHECK(in == (check_rank > 0 ? 50 + check_rank - 1 : -1), "got %d", in);
    CHECK_STATUS(status, down, check_rank > 0 ? 23 : MPI_ANY_TAG, check_rank > 0 ? sizeof(int) : 0);
    OK(MPI_Sendrecv_replace(&out, 1, MPI_INT, up, 24, down, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(out == (check_rank > 0 ? 50 + check_rank - 1 : 50), "replaced by %d", out);
}

static void self(void)
{
    int out[3] = {1, 2, 3}, in[3] = {0};
    MPI_Status status;
    OK(MPI_Sendrecv(out, 3, MPI_INT, check_rank, 25, in, 3, MPI_INT, check_rank, 25, MPI_COMM_WORLD, &status));
    CHECK(!memcmp(in, out, sizeof in), "wrong data from self");
    OK(MPI_Sendrecv(out, 3, MPI_INT, 0, 26, in, 3, MPI_INT, 0, 26, MPI_COMM_SELF, &status));
    CHECK_STATUS(status, 0, 26, sizeof in);
}

/* A source that is a rank of the local group of an inter-communicator only: nothing is sent, either. */
static void wrong_source(void)
{
    MPI_Comm local, inter;
    int one = 1, flag;
    if (check_size < 3) return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, check_rank, &local));
    OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, check_rank == 0, 27, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    if (check_rank > 0)
        FAILS(MPI_Sendrecv(&one, 1, MPI_INT, 0, 28, &one, 1, MPI_INT, 1, 28, inter, MPI_STATUS_IGNORE),
              MPI_ERR_RANK);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a send-receive with a wrong source has sent");
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&local));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    right = (check_rank + 1) % check_size;
    left = (check_rank + check_size - 1) % check_size;
    char *out = check_alloc(CHECK_LENGTH_MAX + 8), *in = check_alloc(CHECK_LENGTH_MAX + 8);
    for (int i = 0; i < CHECK_LENGTHS; i++)
        for (int immediate = 0; immediate < 2; immediate++) {
            exchange(check_lengths[i], out, in, immediate);
            replace(check_lengths[i], out, immediate);
        }
    chain();
    self();
    wrong_source();
    free(out);
    free(in);
    return check_end();
}
