/* Every send mode, blocking and non-blocking, at lengths around the protocol switches, around a ring. */
#include "check.h"

enum mode { SEND, BSEND, SSEND, RSEND, ISEND, IBSEND, ISSEND, IRSEND, MODES };
static const char *const names[] = {"Send", "Bsend", "Ssend", "Rsend", "Isend", "Ibsend", "Issend", "Irsend"};

static void post(enum mode mode, void *out, int bytes, int to, int tag, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    switch (mode) {
    case SEND: OK(MPI_Send(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD)); break;
    case BSEND: OK(MPI_Bsend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD)); break;
    case SSEND: OK(MPI_Ssend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD)); break;
    case RSEND: OK(MPI_Rsend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD)); break;
    case ISEND: OK(MPI_Isend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request)); break;
    case IBSEND: OK(MPI_Ibsend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request)); break;
    case ISSEND: OK(MPI_Issend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request)); break;
    default: OK(MPI_Irsend(out, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, request)); break;
    }
}

/* The receive is posted before anybody sends (the barrier), as ready mode wants. */
static void around(enum mode mode, int bytes, char *out, char *in)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int tag = 100 + (int)mode;
    MPI_Request receive, send;
    MPI_Status status;
    pattern_fill(out, (size_t)bytes, (uint32_t)(check_rank * 31 + tag));
    memset(in, 0x5a, (size_t)bytes + 8);
    OK(MPI_Irecv(in, bytes, MPI_BYTE, left, tag, MPI_COMM_WORLD, &receive));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    post(mode, out, bytes, right, tag, &send);
    if (mode == IBSEND) memset(out, 0, 0); /* the buffer belongs to us again only after the wait */
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK(send == MPI_REQUEST_NULL, "%s: request survives its wait", names[mode]);
    if (mode == BSEND || mode == IBSEND) memset(out, 0xff, (size_t)bytes); /* the copy must be ours no more */
    OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(status, left, tag, bytes);
    long wrong = pattern_wrong(in, (size_t)bytes, (uint32_t)(left * 31 + tag));
    CHECK(wrong < 0, "%s of %d bytes: byte %ld is wrong", names[mode], bytes, wrong);
    for (int i = 0; i < 8; i++) CHECK(in[bytes + i] == 0x5a, "%s of %d bytes wrote past its end", names[mode], bytes);
}

/* The same with the receive late: the message is unexpected. Not for ready mode; synchronous ones must not block. */
static void unexpected(enum mode mode, int bytes, char *out, char *in)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int tag = 200 + (int)mode;
    MPI_Request send;
    MPI_Status status;
    pattern_fill(out, (size_t)bytes, (uint32_t)(check_rank * 17 + tag));
    post(mode, out, bytes, right, tag, &send);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Recv(in, bytes + 8, MPI_BYTE, left, tag, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_STATUS(status, left, tag, bytes);
    long wrong = pattern_wrong(in, (size_t)bytes, (uint32_t)(left * 17 + tag));
    CHECK(wrong < 0, "unexpected %s of %d bytes: byte %ld is wrong", names[mode], bytes, wrong);
}

/* A synchronous send may not complete before its receive is posted. */
static void issend_waits(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0, value = 42, got = 0;
    if (check_size < 2) return;
    if (check_rank == 0) {
        OK(MPI_Issend(&value, 1, MPI_INT, 1, 301, MPI_COMM_WORLD, &request));
        for (int i = 0; i < 1000; i++) OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        CHECK(!done, "a synchronous send completed before any receive was posted");
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 1) {
        OK(MPI_Recv(&got, 1, MPI_INT, 0, 301, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == 42, "got %d", got);
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Detach gives back the same buffer, and only when its messages have left. */
static void attach_detach(void)
{
    int bytes = 3 * (1000 + MPI_BSEND_OVERHEAD), size = 0;
    char *memory = check_alloc((size_t)bytes), out[1000], in[1000];
    void *back = NULL;
    MPI_Request receives[3];
    OK(MPI_Buffer_attach(memory, bytes));
    for (int i = 0; i < 3; i++) {
        pattern_fill(out, sizeof out, (uint32_t)i);
        OK(MPI_Bsend(out, sizeof out, MPI_BYTE, check_rank, 310 + i, MPI_COMM_WORLD));
    }
    OK(MPI_Irecv(in, sizeof in, MPI_BYTE, check_rank, 310, MPI_COMM_WORLD, &receives[0]));
    OK(MPI_Wait(&receives[0], MPI_STATUS_IGNORE));
    for (int i = 1; i < 3; i++) {
        OK(MPI_Recv(in, sizeof in, MPI_BYTE, check_rank, 310 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(pattern_wrong(in, sizeof in, (uint32_t)i) < 0, "buffered message %d is damaged", i);
    }
    OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == memory && size == bytes, "detach gave another buffer (%d bytes)", size);
    free(memory);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    char *out = check_alloc(CHECK_LENGTH_MAX + 8), *in = check_alloc(CHECK_LENGTH_MAX + 8);
    attach_detach();
    int attached = 2 * (CHECK_LENGTH_MAX + MPI_BSEND_OVERHEAD);
    void *memory = check_alloc((size_t)attached);
    OK(MPI_Buffer_attach(memory, attached));
    for (int i = 0; i < CHECK_LENGTHS; i++)
        for (int mode = 0; mode < MODES; mode++) {
            around((enum mode)mode, check_lengths[i], out, in);
            if (mode == BSEND || mode == ISEND || mode == IBSEND || mode == ISSEND)
                unexpected((enum mode)mode, check_lengths[i], out, in);
        }
    issend_waits();
    OK(MPI_Buffer_detach(&memory, &attached));
    free(memory);
    free(out);
    free(in);
    return check_end();
}
