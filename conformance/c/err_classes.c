/* Wrong arguments give the right class through the communicator's handler; handlers; codes and strings. */
#include "check.h"

static int buffer[64];
static MPI_Request request;
static MPI_Status status;

static void point_to_point(void)
{
    MPI_Comm w = MPI_COMM_WORLD;
    int flag, *bound, found;
    OK(MPI_Comm_get_attr(w, MPI_TAG_UB, &bound, &found));
    FAILS(MPI_Send(buffer, -1, MPI_INT, 0, 1, w), MPI_ERR_COUNT);
    FAILS(MPI_Send(buffer, 1, MPI_DATATYPE_NULL, 0, 1, w), MPI_ERR_TYPE);
    FAILS(MPI_Send(buffer, 1, MPI_INT, check_size, 1, w), MPI_ERR_RANK);
    FAILS(MPI_Send(buffer, 1, MPI_INT, MPI_ANY_SOURCE, 1, w), MPI_ERR_RANK);
    FAILS(MPI_Send(buffer, 1, MPI_INT, 0, -5, w), MPI_ERR_TAG);
    FAILS(MPI_Send(buffer, 1, MPI_INT, 0, MPI_ANY_TAG, w), MPI_ERR_TAG);
    if (found && *bound < INT32_MAX) FAILS(MPI_Send(buffer, 1, MPI_INT, 0, *bound + 1, w), MPI_ERR_TAG);
    FAILS(MPI_Send(buffer, 1, MPI_INT, 0, 1, MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Send(NULL, 1, MPI_INT, 0, 1, w), MPI_ERR_BUFFER);
    FAILS(MPI_Isend(buffer, -1, MPI_INT, 0, 1, w, &request), MPI_ERR_COUNT);
    FAILS(MPI_Irecv(buffer, 1, MPI_INT, check_size + 5, 1, w, &request), MPI_ERR_RANK);
    FAILS(MPI_Recv(buffer, -1, MPI_INT, 0, 1, w, &status), MPI_ERR_COUNT);
    FAILS(MPI_Recv(buffer, 1, MPI_INT, 0, -7, w, &status), MPI_ERR_TAG);
    FAILS(MPI_Recv(NULL, 1, MPI_INT, 0, 1, w, &status), MPI_ERR_BUFFER);
    FAILS(MPI_Probe(check_size, 1, w, &status), MPI_ERR_RANK);
    FAILS(MPI_Iprobe(0, -9, w, &flag, &status), MPI_ERR_TAG);
    FAILS(MPI_Sendrecv(buffer, 1, MPI_INT, 0, 1, buffer + 1, -2, MPI_INT, 0, 1, w, &status), MPI_ERR_COUNT);
    FAILS(MPI_Ssend_init(buffer, 1, MPI_INT, check_size, 1, w, &request), MPI_ERR_RANK);
    FAILS(MPI_Bsend(buffer, 64, MPI_INT, check_rank, 1, w), MPI_ERR_BUFFER); /* nothing attached */
    OK(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 1, w)); /* no address is needed for nothing */
}

static void requests(void)
{
    int flag;
    MPI_Request null = MPI_REQUEST_NULL;
    FAILS(MPI_Request_free(&null), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&null), MPI_ERR_REQUEST);
    FAILS(MPI_Start(&null), MPI_ERR_REQUEST);
    OK(MPI_Wait(&null, &status));
    OK(MPI_Test(&null, &flag, &status));
    FAILS(MPI_Waitall(-1, &null, MPI_STATUSES_IGNORE), MPI_ERR_COUNT);
}

/* Too small a receive: MPI_ERR_TRUNCATE, the fitting part may be there, nothing is written past the end. */
static void truncation(int bytes)
{
    char *out = check_alloc((size_t)bytes), *in = check_alloc((size_t)bytes);
    MPI_Request send;
    memset(in, 0x33, (size_t)bytes);
    OK(MPI_Isend(out, bytes, MPI_BYTE, check_rank, 6, MPI_COMM_WORLD, &send));
    FAILS(MPI_Recv(in, bytes / 2, MPI_BYTE, check_rank, 6, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    for (int i = bytes / 2; i < bytes; i++)
        if (in[i] != 0x33) {
            CHECK(0, "a truncated message of %d bytes wrote past the buffer at %d", bytes, i);
            break;
        }
    OK(MPI_Irecv(in, bytes / 2, MPI_BYTE, check_rank, 7, MPI_COMM_WORLD, &request));
    OK(MPI_Isend(out, bytes, MPI_BYTE, check_rank, 7, MPI_COMM_WORLD, &send));
    FAILS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    free(out);
    free(in);
}

/* Waitall of good ones around a bad one: MPI_ERR_IN_STATUS, and each status says its own. */
static void error_in_status(void)
{
    int in[3] = {0}, out[3] = {4, 5, 6}, class = 0;
    MPI_Request requests[3], stale;
    MPI_Status statuses[3];
    for (int i = 0; i < 3; i++) {
        OK(MPI_Irecv(&in[i], 1, MPI_INT, check_rank, 8 + i, MPI_COMM_WORLD, &requests[i]));
        statuses[i].MPI_ERROR = 77;
    }
    stale = requests[2];
    for (int i = 0; i < 3; i++)
        OK(MPI_Send(&out[i], i == 1 ? 2 : 1, MPI_INT, check_rank, 8 + i, MPI_COMM_WORLD));
    FAILS(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
    for (int i = 0; i < 3; i += 2)
        CHECK(statuses[i].MPI_ERROR == MPI_SUCCESS && in[i] == 4 + i, "good one %d says %d", i, statuses[i].MPI_ERROR);
    OK(MPI_Error_class(statuses[1].MPI_ERROR, &class));
    CHECK(class == MPI_ERR_TRUNCATE, "the bad one's class is %d", class);
    for (int i = 0; i < 3; i++) CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is not null", i);
    /* A handle kept from before is found out. */
    FAILS(MPI_Wait(&stale, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Test(&stale, &class, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&stale), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&stale), MPI_ERR_REQUEST);
}

static void collectives(void)
{
    MPI_Comm w = MPI_COMM_WORLD;
    FAILS(MPI_Bcast(buffer, -1, MPI_INT, 0, w), MPI_ERR_COUNT);
    FAILS(MPI_Bcast(buffer, 1, MPI_INT, check_size, w), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(buffer, 1, MPI_INT, -8, w), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(buffer, 1, MPI_DATATYPE_NULL, 0, w), MPI_ERR_TYPE);
    FAILS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Allreduce(buffer, buffer + 8, 1, MPI_INT, MPI_OP_NULL, w), MPI_ERR_OP);
    FAILS(MPI_Allreduce(buffer, buffer, 1, MPI_INT, MPI_SUM, w), MPI_ERR_BUFFER); /* aliased */
    FAILS(MPI_Reduce(buffer, buffer + 8, 1, MPI_INT, MPI_SUM, check_size, w), MPI_ERR_ROOT);
    FAILS(MPI_Ibcast(buffer, -1, MPI_INT, 0, w, &request), MPI_ERR_COUNT);
    FAILS(MPI_Iallreduce(buffer, buffer + 8, 1, MPI_INT, MPI_OP_NULL, w, &request), MPI_ERR_OP);
}

static void communicators(void)
{
    MPI_Comm comm = MPI_COMM_NULL, world = MPI_COMM_WORLD;
    int size;
    FAILS(MPI_Comm_size(MPI_COMM_NULL, &size), MPI_ERR_COMM);
    FAILS(MPI_Comm_dup(MPI_COMM_NULL, &comm), MPI_ERR_COMM);
    FAILS(MPI_Comm_free(&comm), MPI_ERR_COMM);
    FAILS(MPI_Comm_free(&world), MPI_ERR_COMM);
    FAILS(MPI_Comm_split(MPI_COMM_WORLD, -3, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm), MPI_ERR_GROUP);
    FAILS(MPI_Op_free(&(MPI_Op){MPI_SUM}), MPI_ERR_OP);
}

static int handler_calls, handler_class;
static MPI_Comm handler_comm;

static void handler(MPI_Comm *comm, int *code, ...)
{
    handler_calls++;
    handler_comm = *comm;
    MPI_Error_class(*code, &handler_class);
}

static void user_handlers(void)
{
    MPI_Errhandler mine, before, now;
    MPI_Comm comm, child;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_errhandler(comm, &before));
    CHECK(before == MPI_ERRORS_RETURN, "a duplicate does not inherit the handler");
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_set_errhandler(comm, mine));
    FAILS(MPI_Send(buffer, 1, MPI_INT, check_size, 1, comm), MPI_ERR_RANK);
    CHECK(handler_calls == 1 && handler_class == MPI_ERR_RANK && handler_comm == comm, "handler: %d calls, class %d",
          handler_calls, handler_class);
    OK(MPI_Comm_get_errhandler(comm, &now));
    CHECK(now == mine, "another handler comes back");
    OK(MPI_Errhandler_free(&now));
    OK(MPI_Comm_dup(comm, &child));
    OK(MPI_Errhandler_free(&mine)); /* stays while communicators use it */
    CHECK(mine == MPI_ERRHANDLER_NULL, "Errhandler_free leaves a handle");
    FAILS(MPI_Send(buffer, -1, MPI_INT, 0, 1, child), MPI_ERR_COUNT);
    CHECK(handler_calls == 2 && handler_class == MPI_ERR_COUNT, "inherited: %d calls, class %d", handler_calls,
          handler_class);
    OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
    CHECK(handler_calls == 3 && handler_class == MPI_ERR_OTHER, "called: %d calls", handler_calls);
    OK(MPI_Comm_free(&child));
    OK(MPI_Comm_free(&comm));
}

static void codes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length, class, code, back, *last, found;
    static const int known[] = {MPI_SUCCESS, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM,
                                MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_ARG,
                                MPI_ERR_TRUNCATE, MPI_ERR_OTHER, MPI_ERR_INTERN, MPI_ERR_IN_STATUS, MPI_ERR_PENDING};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        OK(MPI_Error_class(known[i], &class));
        CHECK(class == known[i], "class of %d is %d", known[i], class);
        OK(MPI_Error_string(known[i], text, &length));
        CHECK(length > 0 && strlen(text) == (size_t)length, "text of class %d", known[i]);
    }
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "out of string"));
    OK(MPI_Error_class(code, &back));
    CHECK(back == class, "class of a new code is %d, not %d", back, class);
    OK(MPI_Error_string(code, text, &length));
    CHECK(!strcmp(text, "out of string"), "text of a new code: %s", text);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &found));
    CHECK(found && *last >= code, "MPI_LASTUSEDCODE is behind");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    point_to_point();
    requests();
    for (int bytes = 8; bytes <= 1 << 20; bytes *= 32) truncation(bytes);
    error_in_status();
    collectives();
    communicators();
    user_handlers();
    codes();
    return check_end();
}
