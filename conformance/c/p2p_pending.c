/* One of several requests fails while others cannot go on (MPI-5.0 §3.7.5): the calls for all of them
 * return MPI_ERR_IN_STATUS and say MPI_ERR_PENDING of those that have neither failed nor completed,
 * wherever in the array they stand. These go on and are waited for later. The standard allows to wait for
 * them instead: this is what we promise. */
#include "check.h"

enum { LATE, FAILS_HERE, EARLY, NOTHING, COUNT };

static int partner, values[COUNT][4];
static MPI_Request requests[COUNT];

/* Posts a receive whose message comes after the call, one whose message is too long, and one that works. */
static void post(int tag, const int order[3])
{
    for (int i = 0; i < COUNT; i++) requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < 3; i++) {
        int count = order[i] == FAILS_HERE ? 1 : 4;
        OK(MPI_Irecv(values[i], count, MPI_INT, partner, tag + order[i], MPI_COMM_WORLD, &requests[i]));
    }
}

static void send(int tag, int which)
{
    int out[4] = {tag, which, 3, 4};
    OK(MPI_Send(out, 4, MPI_INT, partner, tag + which, MPI_COMM_WORLD));
}

/* Both have come so far. */
static void meet(void)
{
    int out = 0, in = 0;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, partner, 9, &in, 1, MPI_INT, partner, 9, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
}

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

static void verify(const MPI_Status statuses[COUNT], const int order[3], int tag)
{
    static const int wanted[COUNT] = {MPI_ERR_PENDING, MPI_ERR_TRUNCATE, MPI_SUCCESS, MPI_SUCCESS};
    for (int i = 0; i < COUNT; i++) {
        int which = i < 3 ? order[i] : NOTHING;
        int error = statuses[i].MPI_ERROR;
        CHECK(class_of(error) == wanted[which], "request %d has error %d", i, error);
        CHECK((requests[i] != MPI_REQUEST_NULL) == (which == LATE), "request %d is %s", i,
              which == LATE ? "gone" : "still there");
        if (which != EARLY) continue;
        CHECK_STATUS(statuses[i], partner, tag + EARLY, 4 * sizeof(int));
        CHECK(values[i][0] == tag && values[i][1] == EARLY, "wrong data");
    }
}

static void round_of(int tag, const int order[3], int by_test, int is_sent_before)
{
    MPI_Status statuses[COUNT], status;
    int flag = 1, code, late = 0;
    while (order[late] != LATE) late++;
    for (int i = 0; i < COUNT; i++) statuses[i].MPI_ERROR = -7;
    if (is_sent_before) send(tag, FAILS_HERE), send(tag, EARLY);
    if (is_sent_before) meet();
    post(tag, order);
    if (!is_sent_before) send(tag, EARLY), send(tag, FAILS_HERE);
    if (!by_test) code = MPI_Waitall(COUNT, requests, statuses);
    else
        do code = MPI_Testall(COUNT, requests, &flag, statuses);
        while (code == MPI_SUCCESS && !flag);
    CHECK(class_of(code) == MPI_ERR_IN_STATUS, "returned %s", check_error_text(code));
    /* The failing and the working one come in any order: look again until both have. */
    while (class_of(code) == MPI_ERR_IN_STATUS) {
        int open = 0;
        for (int i = 0; i < 3; i++) open += i != late && statuses[i].MPI_ERROR == MPI_ERR_PENDING;
        if (!open) break;
        for (int i = 0; i < 3; i++)
            if (order[i] == EARLY) {
                OK(MPI_Wait(&requests[i], &statuses[i]));
                statuses[i].MPI_ERROR = MPI_SUCCESS;
            }
    }
    verify(statuses, order, tag);
    meet();
    send(tag, LATE);
    OK(MPI_Wait(&requests[late], &status));
    CHECK_STATUS(status, partner, tag + LATE, 4 * sizeof(int));
    CHECK(values[late][1] == LATE, "wrong data");
    /* Nothing fails from here on: the calls succeed as ever. */
    post(tag + 100, (int[]){EARLY, LATE, EARLY + 10});
    send(tag + 100, LATE), send(tag + 100, EARLY), send(tag + 100, EARLY + 10);
    OK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    static const int orders[][3] = {
        {LATE, FAILS_HERE, EARLY}, {FAILS_HERE, LATE, EARLY}, {EARLY, FAILS_HERE, LATE}};
    check_start(&argc, &argv);
    partner = check_rank ^ 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (partner == check_size) partner = check_rank;
    /* A send to oneself may wait for its receive. */
    int forms = partner == check_rank ? 2 : 4;
    for (int order = 0; order < 3; order++)
        for (int form = 0; form < forms; form++)
            round_of(1000 * order + 200 * form, orders[order], form & 1, form >> 1);
    return check_end();
}
