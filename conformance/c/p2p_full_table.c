/* A send-receive for which there is no request left fails, and leaves nothing half done: no receive that takes the next
 * message, no message that was sent. A library with room for a million requests and more has nothing to show. */
#include "check.h"
#include "general.h"

#define MANY (1 << 20)
#define BYTES 1000
#define TAG 5
#define FREE_MAX 4

static MPI_Request *requests;
static int requests_count;
static char out[BYTES], in[BYTES];

/* Makes requests until there is no room for more; whether there is an end. */
static int fill(void)
{
    int count = 0;
    requests = check_alloc(MANY * sizeof *requests);
    while (count < MANY && general_start(&requests[count]) == MPI_SUCCESS) count++;
    requests_count = count;
    return count < MANY;
}

static int free_count;

/* Leaves room for so many requests. */
static void leave(int count)
{
    for (; free_count < count; free_count++) {
        OK(MPI_Grequest_complete(requests[free_count]));
        OK(MPI_Wait(&requests[free_count], MPI_STATUS_IGNORE));
    }
    for (; free_count > count; free_count--)
        OK(general_start(&requests[free_count - 1]));
}

/* On rank 0. `may_succeed`: there is room for what the call makes, if it makes a request. */
static void send_receive(int is_immediate, int may_succeed)
{
    MPI_Request both = MPI_REQUEST_NULL;
    pattern_fill(out, BYTES, 7);
    memset(in, 0, BYTES);
    int class = MPI_SUCCESS;
    int code = is_immediate
        ? MPI_Isendrecv(out, BYTES, MPI_BYTE, 1, TAG, in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &both)
        : MPI_Sendrecv(out, BYTES, MPI_BYTE, 1, TAG, in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int was_done = code == MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_NO_MEM || (was_done && may_succeed), "ended with %s", check_error_text(code));
    if (was_done && is_immediate) OK(MPI_Wait(&both, MPI_STATUS_IGNORE));
    /* So short that it goes without a request, also where an engine of its own sends. */
    OK(MPI_Send(&was_done, 1, MPI_INT, 1, TAG + 1, MPI_COMM_WORLD));
    leave(FREE_MAX);
    if (!was_done) {
        long wrong = 0;
        for (int i = 0; i < BYTES; i++) wrong += in[i] != 0;
        CHECK(wrong == 0, "%ld bytes came into the buffer of a call that failed", wrong);
        /* A receive that was left would have taken this one. */
        OK(MPI_Recv(in, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(NULL, 0, MPI_INT, 1, TAG + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(out, BYTES, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
    }
    CHECK(pattern_wrong(in, BYTES, 8) < 0, "byte %ld is wrong", pattern_wrong(in, BYTES, 8));
}

static void answer(void)
{
    int was_done = -1, is_there = 0;
    MPI_Request sending;
    pattern_fill(out, BYTES, 8);
    OK(MPI_Isend(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &sending));
    OK(MPI_Recv(&was_done, 1, MPI_INT, 0, TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (!was_done) {
        /* What rank 0 sent before has come before; what it sends next waits for a word of ours. */
        OK(MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE));
        CHECK(!is_there, "a message came from a call that failed");
        OK(MPI_Send(NULL, 0, MPI_INT, 0, TAG + 2, MPI_COMM_WORLD));
    }
    OK(MPI_Recv(in, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(pattern_wrong(in, BYTES, 7) < 0, "byte %ld is wrong", pattern_wrong(in, BYTES, 7));
    OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *mode = getenv("AYATORI_PROGRESS");
    int length, is_full = 1;
    check_start(&argc, &argv);
    CHECK_NEED(2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Get_library_version(version, &length));
    if (check_rank == 0) {
        is_full = fill();
        CHECK(is_full || !strstr(version, "Ayatori"), "the table of requests has no end");
        leave(FREE_MAX);
    }
    OK(MPI_Bcast(&is_full, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (is_full && check_rank == 0) {
        leave(0);
        send_receive(1, 0);
        /* Room for one half. */
        leave(1);
        send_receive(0, !mode || strcmp(mode, "offload") != 0);
    }
    if (is_full && check_rank == 1) {
        answer();
        answer();
    }
    if (check_rank == 0) {
        for (int i = free_count; i < requests_count; i++) {
            OK(MPI_Grequest_complete(requests[i]));
            OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        }
        free(requests);
    }
    return check_end();
}
