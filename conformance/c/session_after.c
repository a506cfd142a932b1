/* Sessions after the world has ended (MPI-5.0 §11.3), one after another, of all processes and of one. */
#include "check.h"

static int ended(void)
{
    int flag = -1;
    OK(MPI_Finalized(&flag));
    return flag;
}

/* A sum, a long message around, and a window. */
static void use(MPI_Session session, const char *set, const char *tag)
{
    enum { LONG = 300000 };
    MPI_Group group;
    MPI_Comm comm;
    MPI_Win win;
    int sum = -1, size = -1, rank = -1, one = 1, *memory = NULL;
    OK(MPI_Group_from_session_pset(session, set, &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == size, "%s: %d of %d", tag, sum, size);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *out = check_alloc(LONG), *in = check_alloc(LONG);
    pattern_fill(out, LONG, (uint32_t)rank);
    OK(MPI_Sendrecv(out, LONG, MPI_BYTE, to, 7, in, LONG, MPI_BYTE, from, 7, comm, MPI_STATUS_IGNORE));
    long wrong = pattern_wrong(in, LONG, (uint32_t)from);
    CHECK(wrong < 0, "%s: byte %ld is wrong", tag, wrong);
    free(out), free(in);
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &memory, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&rank, 1, MPI_INT, to, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(*memory == from, "%s: %d put %d", tag, from, *memory);
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
}

int main(int argc, char **argv)
{
    MPI_Session session, second;
    check_start(&argc, &argv);
    /* The verdict; what fails after it gives another exit code. */
    int result = check_end(), rank = check_rank;
    check_errors = 0;
    CHECK(ended(), "the world has not ended");
    if (rank == 0) { /* the others know nothing of it */
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        use(session, "mpi://SELF", "alone");
        OK(MPI_Session_finalize(&session));
    }
    for (int round = 0; round < 3; round++) {
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
        CHECK(ended(), "a session makes a world");
        use(session, "mpi://WORLD", "all");
        OK(MPI_Session_finalize(&session));
        use(second, "mpi://WORLD", "all again");
        OK(MPI_Session_finalize(&second));
    }
    return result || check_errors;
}
