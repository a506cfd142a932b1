/* Persistent requests of a communicator that has been freed: they go on using it (MPI-5.0 7.4.3), and not one
 * that was made since. */
#include "check.h"

enum { ROUNDS = 3 };

static int right, left;

/* A communicator in the place of the freed one: each process alone. */
static MPI_Comm another(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank, 0, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return comm;
}

static void messages(int buffered)
{
    MPI_Comm freed, since;
    MPI_Request requests[2], other;
    int out, in, stray = -1, flag;
    MPI_Status statuses[2];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &freed));
    OK(MPI_Recv_init(&in, 1, MPI_INT, left, 5, freed, &requests[0]));
    if (buffered) OK(MPI_Bsend_init(&out, 1, MPI_INT, right, 5, freed, &requests[1]));
    else OK(MPI_Send_init(&out, 1, MPI_INT, right, 5, freed, &requests[1]));
    OK(MPI_Comm_free(&freed));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &since));
    OK(MPI_Irecv(&stray, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, since, &other));
    OK(MPI_Barrier(since));
    for (int round = 0; round < ROUNDS; round++) {
        out = 10 * check_rank + round, in = -1;
        OK(MPI_Startall(2, requests));
        for (int done = 0; !done;) {
            OK(MPI_Test(&other, &flag, MPI_STATUS_IGNORE));
            CHECK(!flag, "another communicator got the message %d", stray);
            if (flag) return;
            OK(MPI_Testall(2, requests, &done, statuses));
        }
        CHECK(in == 10 * left + round, "round %d brought %d", round, in);
        CHECK_STATUS(statuses[0], left, 5, (int)sizeof in);
    }
    OK(MPI_Cancel(&other));
    OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_Comm_free(&since));
}

static void collective(void)
{
    MPI_Comm freed, since;
    MPI_Request request;
    int one = 1, sum;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &freed));
    OK(MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, freed, MPI_INFO_NULL, &request));
    OK(MPI_Comm_free(&freed));
    since = another();
    for (int round = 0; round < ROUNDS; round++) {
        sum = -1;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sum == check_size, "round %d: %d of %d took part", round, sum, check_size);
    }
    OK(MPI_Request_free(&request));
    OK(MPI_Comm_free(&since));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int attached = ROUNDS * ((int)sizeof(int) + MPI_BSEND_OVERHEAD);
    void *memory = check_alloc((size_t)attached);
    OK(MPI_Buffer_attach(memory, attached));
    /* Often: places are used again. */
    for (int times = 0; times < 5 && !check_errors; times++) {
        messages(0);
        messages(1);
        collective();
    }
    OK(MPI_Buffer_detach(&memory, &attached));
    return check_end();
}
