/* Buffers of communicators: which one a message takes, flushing, detaching, freeing, MPI_BUFFER_AUTOMATIC, errors. */
#include "check.h"

enum { LONG = 1200000 }; /* never sent at once */
static unsigned char *message, *got;

static void bsend(MPI_Comm comm, int bytes, int tag, int ok)
{
    int to = (check_rank + 1) % check_size;
    pattern_fill(message, (size_t)bytes, (uint32_t)(check_rank * 100 + tag));
    int code = MPI_Bsend(message, bytes, MPI_BYTE, to, tag, comm);
    memset(message, 0, (size_t)bytes);
    if (ok) OK(code);
    else FAILS(code, MPI_ERR_BUFFER);
}

static void receive(MPI_Comm comm, int bytes, int tag)
{
    int from = (check_rank + check_size - 1) % check_size;
    MPI_Status status;
    OK(MPI_Recv(got, LONG, MPI_BYTE, from, tag, comm, &status));
    CHECK_STATUS(status, from, tag, bytes);
    long wrong = pattern_wrong(got, (size_t)bytes, (uint32_t)(from * 100 + tag));
    CHECK(wrong < 0, "tag %d: byte %ld is wrong", tag, wrong);
}

/* A message takes the communicator's buffer and never the process' if that is full. */
static void nearest(void)
{
    int size_of_detached = -1, room = LONG + MPI_BSEND_OVERHEAD;
    MPI_Count large = -1;
    void *memory = check_alloc((size_t)room), *whole = check_alloc((size_t)room), *address = NULL;
    MPI_Comm comm, dup;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_dup(comm, &dup));
    bsend(comm, 1, 1, 0);
    OK(MPI_Buffer_attach(whole, room));
    bsend(comm, LONG, 1, 1);
    OK(MPI_Comm_attach_buffer(comm, memory, room));
    bsend(comm, LONG, 2, 1);
    bsend(comm, LONG, 3, 0);
    bsend(dup, LONG, 3, 0);
    OK(MPI_Barrier(comm)); /* nobody receives before */
    for (int tag = 1; tag <= 2; tag++) receive(comm, LONG, tag);
    OK(MPI_Comm_flush_buffer(comm));
    bsend(comm, LONG, 4, 1);
    receive(comm, LONG, 4);
    OK(MPI_Comm_detach_buffer(comm, &address, &size_of_detached));
    CHECK(address == memory && size_of_detached == room, "another buffer of %d bytes comes back", size_of_detached);
    OK(MPI_Buffer_flush());
    bsend(comm, 100, 5, 1);
    receive(comm, 100, 5);
    OK(MPI_Comm_detach_buffer_c(comm, &address, &large));
    CHECK(large == 0, "a buffer of %ld bytes that nobody attached", (long)large);
    OK(MPI_Buffer_detach_c(&address, &large));
    CHECK(address == whole && large == room, "another buffer of the process comes back");
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&comm));
    free(memory), free(whole);
}

/* A request that is over when the buffer is empty; a free that waits for that. */
static void drains(void)
{
    int flag = 1, room = LONG + MPI_BSEND_OVERHEAD;
    void *memory = check_alloc((size_t)room);
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_attach_buffer_c(comm, memory, room));
    OK(MPI_Comm_iflush_buffer(comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    bsend(comm, LONG, 1, 1);
    OK(MPI_Comm_iflush_buffer(comm, &request));
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "flushed before anybody has received");
    OK(MPI_Barrier(comm));
    receive(comm, LONG, 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    bsend(comm, 1000, 2, 1);
    receive(comm, 1000, 2);
    OK(MPI_Comm_free(&comm));
    memset(memory, 0, (size_t)room);
    free(memory);
}

static void automatic(void)
{
    int size = -1;
    void *address = NULL;
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int owner = 0; owner < 2; owner++) {
        if (owner) OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
        else OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
        for (int tag = 0; tag < 20; tag++) bsend(comm, tag * 15000, tag, 1);
        for (int tag = 0; tag < 20; tag++) receive(comm, tag * 15000, tag);
        if (owner) OK(MPI_Comm_iflush_buffer(comm, &request));
        else OK(MPI_Buffer_iflush(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (owner) OK(MPI_Comm_detach_buffer(comm, &address, &size));
        else OK(MPI_Buffer_detach(&address, &size));
        CHECK(address == MPI_BUFFER_AUTOMATIC && size == 0, "not the automatic buffer comes back");
    }
    OK(MPI_Comm_free(&comm));
}

/* MPI_Comm_free has flushed: the request is over, whatever buffer a later communicator has. */
static void flush_of_freed(void)
{
    int flag = 0;
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    bsend(comm, 10, 1, 1);
    OK(MPI_Comm_iflush_buffer(comm, &request));
    receive(comm, 10, 1);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    bsend(comm, LONG, 2, 1);
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(flag, "it waits for the messages of another communicator");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    receive(comm, LONG, 2);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&comm));
}

static void wrong(void)
{
    char memory[64];
    int size;
    void *address;
    MPI_Request request;
    FAILS(MPI_Comm_attach_buffer(MPI_COMM_NULL, memory, 64), MPI_ERR_COMM);
    FAILS(MPI_Comm_detach_buffer(MPI_COMM_NULL, &address, &size), MPI_ERR_COMM);
    FAILS(MPI_Comm_flush_buffer(MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Comm_iflush_buffer(MPI_COMM_NULL, &request), MPI_ERR_COMM);
    FAILS(MPI_Comm_attach_buffer(MPI_COMM_WORLD, memory, -1), MPI_ERR_ARG);
    FAILS(MPI_Comm_attach_buffer(MPI_COMM_WORLD, NULL, 64), MPI_ERR_ARG);
    OK(MPI_Comm_attach_buffer(MPI_COMM_WORLD, memory, 64));
    FAILS(MPI_Comm_attach_buffer(MPI_COMM_WORLD, memory, 64), MPI_ERR_BUFFER);
    OK(MPI_Comm_detach_buffer(MPI_COMM_WORLD, &address, &size));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    message = check_alloc(LONG), got = check_alloc(LONG);
    nearest();
    drains();
    automatic();
    flush_of_freed();
    wrong();
    free(message), free(got);
    return check_end();
}
