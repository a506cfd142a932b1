/* Buffers of sessions: taken by messages of communicators that come from the session, by whatever way. */
#include "check.h"

enum { LONG = 1200000, ROOM = LONG + MPI_BSEND_OVERHEAD }; /* LONG is never sent at once */
static unsigned char *message, *got;

static void bsend(MPI_Comm comm, int bytes, int tag, int ok)
{
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    pattern_fill(message, (size_t)bytes, (uint32_t)(rank * 100 + tag));
    int code = MPI_Bsend(message, bytes, MPI_BYTE, (rank + 1) % size, tag, comm);
    memset(message, 0, (size_t)bytes);
    if (ok) OK(code);
    else FAILS(code, MPI_ERR_BUFFER);
}

static void receive(MPI_Comm comm, int bytes, int tag)
{
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    int from = (rank + size - 1) % size;
    MPI_Status status;
    OK(MPI_Recv(got, LONG, MPI_BYTE, from, tag, comm, &status));
    CHECK_STATUS(status, from, tag, bytes);
    long wrong = pattern_wrong(got, (size_t)bytes, (uint32_t)(from * 100 + tag));
    CHECK(wrong < 0, "tag %d: byte %ld is wrong", tag, wrong);
}

static MPI_Comm comm_of(MPI_Session session, const char *tag)
{
    MPI_Group all, some;
    MPI_Comm comm;
    int none = 0;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    OK(MPI_Group_excl(all, 0, &none, &some));
    OK(MPI_Comm_create_from_group(some, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&some));
    return comm;
}

/* A communicator takes its own buffer, else its session's, else the process'. */
static void nearest(void)
{
    MPI_Session first, second;
    MPI_Comm a, b, dup, part;
    MPI_Request request;
    int size = -1;
    MPI_Count large = -1;
    void *of_first = check_alloc(ROOM), *of_comm = check_alloc(ROOM), *address = NULL;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
    a = comm_of(first, "a");
    b = comm_of(second, "b");
    OK(MPI_Comm_dup(a, &dup));
    OK(MPI_Comm_split(dup, 0, 0, &part));
    OK(MPI_Session_attach_buffer(first, of_first, ROOM));
    FAILS(MPI_Session_attach_buffer(first, of_first, ROOM), MPI_ERR_BUFFER);
    FAILS(MPI_Session_attach_buffer(second, of_first, -1), MPI_ERR_ARG);
    FAILS(MPI_Session_attach_buffer(MPI_SESSION_NULL, of_first, ROOM), MPI_ERR_SESSION);
    bsend(b, 1, 1, 0);
    bsend(MPI_COMM_WORLD, 1, 1, 0);
    bsend(part, LONG, 2, 1);
    bsend(a, LONG, 3, 0);
    OK(MPI_Comm_attach_buffer(a, of_comm, ROOM));
    bsend(a, LONG, 3, 1);
    OK(MPI_Session_iflush_buffer(first, &request));
    int flag = 1;
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(check_size == 1 || !flag, "flushed before anybody has received");
    OK(MPI_Barrier(a));
    receive(part, LONG, 2);
    receive(a, LONG, 3);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_flush_buffer(first));
    OK(MPI_Comm_detach_buffer(a, &address, &size));
    OK(MPI_Session_detach_buffer(first, &address, &size));
    CHECK(address == of_first && size == ROOM, "another buffer of %d bytes comes back", size);
    OK(MPI_Session_attach_buffer_c(second, MPI_BUFFER_AUTOMATIC, 0));
    bsend(b, LONG, 4, 1);
    bsend(b, LONG, 5, 1);
    receive(b, LONG, 4);
    receive(b, LONG, 5);
    OK(MPI_Session_detach_buffer_c(second, &address, &large));
    CHECK(address == MPI_BUFFER_AUTOMATIC && large == 0, "%ld bytes of an automatic buffer", (long)large);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&a));
    OK(MPI_Comm_free(&b));
    OK(MPI_Session_attach_buffer(second, of_first, ROOM));
    OK(MPI_Session_finalize(&first));
    OK(MPI_Session_finalize(&second));
    free(of_first), free(of_comm);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    message = check_alloc(LONG);
    got = check_alloc(LONG);
    nearest();
    free(message), free(got);
    return check_end();
}
