/* Probe, Iprobe, matched probe and its receives; MPI_PROC_NULL. */
#include "check.h"

static int left, right;
static int tag = 1000; /* a new one every round: a neighbour that is a round ahead must not be mistaken */

static void probe_then_receive(int bytes, char *out, char *in)
{
    MPI_Request send;
    MPI_Status seen, got;
    int count = -1;
    pattern_fill(out, (size_t)bytes, (uint32_t)(check_rank + bytes));
    OK(MPI_Isend(out, bytes, MPI_BYTE, right, 11, MPI_COMM_WORLD, &send));
    OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &seen));
    CHECK_STATUS(seen, left, 11, bytes);
    OK(MPI_Get_count(&seen, MPI_BYTE, &count));
    OK(MPI_Recv(in, count, MPI_BYTE, seen.MPI_SOURCE, seen.MPI_TAG, MPI_COMM_WORLD, &got));
    CHECK_STATUS(got, left, 11, bytes);
    CHECK(pattern_wrong(in, (size_t)bytes, (uint32_t)(left + bytes)) < 0, "wrong data at %d bytes", bytes);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

static void matched(int bytes, char *out, char *in, int immediate)
{
    MPI_Request send, receive = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag = 0;
    tag++;
    pattern_fill(out, (size_t)bytes, (uint32_t)(check_rank * 3 + bytes));
    OK(MPI_Isend(out, bytes, MPI_BYTE, right, tag, MPI_COMM_WORLD, &send));
    if (immediate)
        while (!flag) OK(MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, &message, &status));
    else
        OK(MPI_Mprobe(left, tag, MPI_COMM_WORLD, &message, &status));
    CHECK_STATUS(status, left, tag, bytes);
    CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC, "no message handle");
    /* A matched message is gone for everybody else. */
    OK(MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a matched message is still found by Iprobe");
    if (immediate) {
        OK(MPI_Imrecv(in, bytes, MPI_BYTE, &message, &receive));
        OK(MPI_Wait(&receive, &status));
    } else
        OK(MPI_Mrecv(in, bytes, MPI_BYTE, &message, &status));
    CHECK_STATUS(status, left, tag, bytes);
    CHECK(message == MPI_MESSAGE_NULL, "the handle survives its receive");
    CHECK(pattern_wrong(in, (size_t)bytes, (uint32_t)(left * 3 + bytes)) < 0, "wrong data at %d bytes", bytes);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

/* Two matched messages of one sender can be received in the other order. */
static void matched_swapped(void)
{
    MPI_Message first, second;
    MPI_Request sends[2];
    int out[2] = {1, 2}, in = 0;
    for (int i = 0; i < 2; i++) OK(MPI_Isend(&out[i], 1, MPI_INT, right, 13, MPI_COMM_WORLD, &sends[i]));
    OK(MPI_Mprobe(left, 13, MPI_COMM_WORLD, &first, MPI_STATUS_IGNORE));
    OK(MPI_Mprobe(left, 13, MPI_COMM_WORLD, &second, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(&in, 1, MPI_INT, &second, MPI_STATUS_IGNORE));
    CHECK(in == 2, "the second message brought %d", in);
    OK(MPI_Mrecv(&in, 1, MPI_INT, &first, MPI_STATUS_IGNORE));
    CHECK(in == 1, "the first message brought %d", in);
    OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
}

static void nothing_there(void)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag = 1;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "Iprobe found a message nobody sent");
    flag = 1;
    OK(MPI_Improbe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
    CHECK(!flag, "Improbe found a message nobody sent");
}

static void proc_null(void)
{
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request;
    MPI_Status status;
    int flag = 0, value = 123;
    OK(MPI_Probe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Iprobe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &flag, &status));
    CHECK(flag, "Iprobe of MPI_PROC_NULL says no");
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Mprobe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC, "Mprobe of MPI_PROC_NULL gives no MPI_MESSAGE_NO_PROC");
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    flag = 0;
    OK(MPI_Improbe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &flag, &message, &status));
    CHECK(flag && message == MPI_MESSAGE_NO_PROC, "Improbe of MPI_PROC_NULL");
    OK(MPI_Imrecv(&value, 1, MPI_INT, &message, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD));
    OK(MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD));
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK(value == 123, "a receive from MPI_PROC_NULL wrote its buffer");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    right = (check_rank + 1) % check_size;
    left = (check_rank + check_size - 1) % check_size;
    char *out = check_alloc(CHECK_LENGTH_MAX), *in = check_alloc(CHECK_LENGTH_MAX);
    for (int i = 0; i < CHECK_LENGTHS; i++) {
        probe_then_receive(check_lengths[i], out, in);
        matched(check_lengths[i], out, in, 0);
        matched(check_lengths[i], out, in, 1);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    matched_swapped();
    nothing_there();
    proc_null();
    free(out);
    free(in);
    return check_end();
}
