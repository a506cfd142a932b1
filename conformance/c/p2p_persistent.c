/* Persistent requests of every mode: started many times, together and one by one. */
#include "check.h"

#define ROUNDS 20

typedef int initialiser(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void mode(const char *name, initialiser *init, int ready, int bytes, char *out, char *in)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2]; /* the receive first: ready mode wants it posted */
    MPI_Status statuses[2];
    OK(MPI_Recv_init(in, bytes, MPI_BYTE, left, 501, MPI_COMM_WORLD, &requests[0]));
    OK(init(out, bytes, MPI_BYTE, right, 501, MPI_COMM_WORLD, &requests[1]));
    for (int round = 0; round < ROUNDS; round++) {
        pattern_fill(out, (size_t)bytes, (uint32_t)(check_rank + round));
        if (ready || round % 2) {
            OK(MPI_Start(&requests[0]));
            if (ready) OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Start(&requests[1]));
        } else
            OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, statuses));
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL, "%s: Waitall freed it", name);
        CHECK_STATUS(statuses[0], left, 501, bytes);
        CHECK(pattern_wrong(in, (size_t)bytes, (uint32_t)(left + round)) < 0, "%s, %d bytes, round %d", name, bytes,
              round);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    CHECK(requests[0] == MPI_REQUEST_NULL, "%s: Request_free leaves a handle", name);
}

/* Waiting for an inactive request returns at once with an empty status. */
static void inactive(void)
{
    int value = 0, flag = 0, index = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Recv_init(&value, 1, MPI_INT, check_rank, 502, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    OK(MPI_Test(&request, &flag, &status));
    CHECK(flag, "Test of an inactive request says no");
    OK(MPI_Waitany(1, &request, &index, &status));
    CHECK(index == MPI_UNDEFINED, "Waitany of only inactive requests gives %d", index);
    OK(MPI_Start(&request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag, "a persistent receive was not cancelled");
    OK(MPI_Request_free(&request));
}

/* A persistent send to MPI_PROC_NULL, and receives that match ordinary sends. */
static void mixed(void)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int in = 0, out = 0;
    MPI_Request null_send, receive;
    OK(MPI_Send_init(&out, 1, MPI_INT, MPI_PROC_NULL, 503, MPI_COMM_WORLD, &null_send));
    OK(MPI_Recv_init(&in, 1, MPI_INT, MPI_ANY_SOURCE, 503, MPI_COMM_WORLD, &receive));
    for (int round = 0; round < ROUNDS; round++) {
        out = round * 100 + check_rank;
        OK(MPI_Start(&receive));
        OK(MPI_Start(&null_send));
        OK(MPI_Send(&out, 1, MPI_INT, right, 503, MPI_COMM_WORLD));
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&null_send, MPI_STATUS_IGNORE));
        CHECK(in == round * 100 + left, "round %d brought %d", round, in);
    }
    OK(MPI_Request_free(&null_send));
    OK(MPI_Request_free(&receive));
}

int main(int argc, char **argv)
{
    static const int lengths[] = {0, 8, 1000, 9000, 70000, 300000, 1200000};
    check_start(&argc, &argv);
    char *out = check_alloc(1200000), *in = check_alloc(1200000);
    int attached = ROUNDS * (1200000 + MPI_BSEND_OVERHEAD);
    void *memory = check_alloc((size_t)attached);
    OK(MPI_Buffer_attach(memory, attached));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mode("Send_init", MPI_Send_init, 0, lengths[i], out, in);
        mode("Bsend_init", MPI_Bsend_init, 0, lengths[i], out, in);
        mode("Ssend_init", MPI_Ssend_init, 0, lengths[i], out, in);
        mode("Rsend_init", MPI_Rsend_init, 1, lengths[i], out, in);
    }
    inactive();
    mixed();
    OK(MPI_Buffer_detach(&memory, &attached));
    return check_end();
}
