/* Cancelling, freeing active requests, MPI_Request_get_status, generalised completion of cancelled requests. */
#include "check.h"

/* Some libraries (MPICH) never cancel a send: then it has to arrive, and a test for its end is given up. Ours
 * cancels, however long that takes; programs built for other libraries run on it, too. */
static int cancels_sends(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    OK(MPI_Get_library_version(version, &length));
    return strstr(version, "Ayatori") != NULL;
}

#define LOOKS 100000

static void cancel_unmatched_receive(void)
{
    int value = 5, cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 401, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    CHECK(request != MPI_REQUEST_NULL, "Cancel must not free the request");
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled && value == 5, "an unmatched receive was not cancelled");
}

/* A cancelled receive must not swallow the message that would have matched it. */
static void message_after_cancel(void)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int lost = -1, got = -1, out = 700 + check_rank, cancelled = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&lost, 1, MPI_INT, left, 402, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled, "not cancelled");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Sendrecv(&out, 1, MPI_INT, right, 402, &got, 1, MPI_INT, left, 402, MPI_COMM_WORLD, &status));
    CHECK(got == 700 + left && lost == -1, "got %d, lost %d", got, lost);
}

/* Cancel among several: only the one named; the others complete. */
static void cancel_one_of_many(void)
{
    enum { COUNT = 20 };
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int in[COUNT], out[COUNT], flag;
    MPI_Request receives[COUNT];
    MPI_Status statuses[COUNT];
    for (int i = 0; i < COUNT; i++) {
        in[i] = -1;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left, 420 + i, MPI_COMM_WORLD, &receives[i]));
    }
    for (int i = 0; i < COUNT; i += 3) OK(MPI_Cancel(&receives[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) {
        out[i] = 100 * check_rank + i;
        if (i % 3) OK(MPI_Send(&out[i], 1, MPI_INT, right, 420 + i, MPI_COMM_WORLD));
    }
    OK(MPI_Waitall(COUNT, receives, statuses));
    for (int i = 0; i < COUNT; i++) {
        OK(MPI_Test_cancelled(&statuses[i], &flag));
        CHECK(flag == (i % 3 == 0), "receive %d: cancelled %d", i, flag);
        CHECK(in[i] == (i % 3 ? 100 * left + i : -1), "receive %d brought %d", i, in[i]);
    }
}

/* A receive that already matched is not cancelled: its data stay. */
static void cancel_too_late(void)
{
    int out = 31, in = 0, flag = 0, cancelled = 1;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&in, 1, MPI_INT, check_rank, 403, MPI_COMM_WORLD, &request));
    OK(MPI_Send(&out, 1, MPI_INT, check_rank, 403, MPI_COMM_WORLD));
    while (!flag) OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(request != MPI_REQUEST_NULL && in == 31, "Request_get_status must not free; value %d", in);
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(!cancelled, "a completed receive says it was cancelled");
    CHECK_STATUS(status, check_rank, 403, sizeof(int));
}

/* Either the send is cancelled or the message arrives: never both, never neither. (Cancelling sends is deprecated.) */
static void cancel_send(void)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int out = 9, in = 0, cancelled = 0, theirs = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Issend(&out, 1, MPI_INT, right, 404, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    /* Whatever the cancel needs of others, they are here too or in Sendrecv below. */
    int done = 0, waits = cancels_sends();
    for (int looks = 0; !done && (waits || looks < LOOKS); looks++) OK(MPI_Test(&request, &done, &status));
    if (done) OK(MPI_Test_cancelled(&status, &cancelled));
    OK(MPI_Sendrecv(&cancelled, 1, MPI_INT, right, 405, &theirs, 1, MPI_INT, left, 405, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    if (!theirs) {
        OK(MPI_Recv(&in, 1, MPI_INT, left, 404, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(in == 9, "got %d", in);
    }
    if (!done) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int flag = 1;
    OK(MPI_Iprobe(left, 404, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a cancelled send arrived all the same");
}

/* A freed active send still delivers. */
static void free_active(void)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    static int out[5000], in[5000];
    MPI_Request request;
    for (int i = 0; i < 5000; i++) out[i] = check_rank + i;
    OK(MPI_Isend(out, 5000, MPI_INT, right, 406, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "Request_free leaves a handle");
    OK(MPI_Recv(in, 5000, MPI_INT, left, 406, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5000; i++) CHECK(in[i] == left + i, "word %d is %d", i, in[i]);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* before `out` may change */
}

static void null_request_status(void)
{
    MPI_Status status;
    int flag = 0, cancelled = 1;
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
    CHECK(flag, "Request_get_status of a null request says no");
    CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(!cancelled, "an empty status says cancelled");
    OK(MPI_Status_set_cancelled(&status, 1));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled, "Status_set_cancelled has no effect");
    int elements = 0;
    OK(MPI_Status_set_elements(&status, MPI_INT, 6));
    OK(MPI_Get_elements(&status, MPI_INT, &elements));
    CHECK(elements == 6, "Get_elements gives %d", elements);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    cancel_unmatched_receive();
    message_after_cancel();
    cancel_one_of_many();
    cancel_too_late();
    cancel_send();
    free_active();
    null_request_status();
    return check_end();
}
