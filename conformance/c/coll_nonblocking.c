/* Many collectives under way at once, over several communicators, among point-to-point messages. */
#include "check.h"

#include <time.h>

#define MANY 30

/* All kinds started before any is waited for; completed in the reverse order. */
static void many(void)
{
    int sums[MANY], ins[MANY], flags[MANY];
    MPI_Request requests[3 * MANY + 2];
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    int message = 90 + check_rank, got = -1, n = 0;
    OK(MPI_Irecv(&got, 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[n++]));
    for (int i = 0; i < MANY; i++) {
        ins[i] = check_rank + i;
        sums[i] = -1;
        flags[i] = check_rank == i % check_size ? i + 1000 : -1;
        OK(MPI_Iallreduce(&ins[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[n++]));
        OK(MPI_Ibcast(&flags[i], 1, MPI_INT, i % check_size, MPI_COMM_WORLD, &requests[n++]));
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[n++]));
    }
    OK(MPI_Isend(&message, 1, MPI_INT, right, 61, MPI_COMM_WORLD, &requests[n++]));
    for (int i = n - 1; i >= 0; i--) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    CHECK(got == 90 + left, "a collective's message went to a receive: got %d", got);
    for (int i = 0; i < MANY; i++) {
        CHECK(sums[i] == check_size * (check_size - 1) / 2 + check_size * i, "sum %d is %d", i, sums[i]);
        CHECK(flags[i] == i + 1000, "broadcast %d brought %d", i, flags[i]);
    }
}

/* Different orders of waiting on two communicators must not deadlock. */
static void two_communicators(void)
{
    MPI_Comm twin;
    MPI_Request a, b;
    int one = 1, sum_a = 0, sum_b = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    if (check_rank % 2) {
        OK(MPI_Iallreduce(&one, &sum_a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &a));
        OK(MPI_Iallreduce(&one, &sum_b, 1, MPI_INT, MPI_SUM, twin, &b));
        OK(MPI_Wait(&a, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&b, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Iallreduce(&one, &sum_b, 1, MPI_INT, MPI_SUM, twin, &b));
        OK(MPI_Iallreduce(&one, &sum_a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &a));
        OK(MPI_Wait(&b, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&a, MPI_STATUS_IGNORE));
    }
    CHECK(sum_a == check_size && sum_b == check_size, "sums %d and %d", sum_a, sum_b);
    OK(MPI_Comm_free(&twin));
}

/* A large non-blocking all-to-all completes through MPI_Test, with blocking messages between. */
static void large_beside_messages(void)
{
    enum { WORDS = 50000 };
    int *out = check_alloc(sizeof(int) * WORDS * (size_t)check_size);
    int *in = check_alloc(sizeof(int) * WORDS * (size_t)check_size);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, flag = 0;
    MPI_Request request;
    for (int i = 0; i < WORDS * check_size; i++) out[i] = check_rank * 100 + i / WORDS;
    OK(MPI_Ialltoall(out, WORDS, MPI_INT, in, WORDS, MPI_INT, MPI_COMM_WORLD, &request));
    for (int i = 0; i < 50; i++) {
        int ping = i, pong = -1;
        OK(MPI_Sendrecv(&ping, 1, MPI_INT, right, 62, &pong, 1, MPI_INT, left, 62, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(pong == i, "message %d brought %d", i, pong);
        if (!flag) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    }
    while (!flag) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    for (int i = 0; i < WORDS * check_size; i++)
        if (in[i] != i / WORDS * 100 + check_rank) {
            CHECK(0, "word %d is %d", i, in[i]);
            break;
        }
    free(out);
    free(in);
}

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nobody leaves a barrier before the last one entered it (one clock: ranks on one machine). */
static void barrier_holds(int immediate)
{
    for (int late = 0; late < check_size; late++) {
        double enter, leave, last_enter, first_leave;
        MPI_Request request;
        if (check_rank == late) {
            struct timespec pause = {0, 2000000};
            nanosleep(&pause, NULL);
        }
        enter = clock_s();
        if (immediate) {
            OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else
            OK(MPI_Barrier(MPI_COMM_WORLD));
        leave = clock_s();
        OK(MPI_Allreduce(&enter, &last_enter, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        OK(MPI_Allreduce(&leave, &first_leave, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
        CHECK(first_leave >= last_enter, "somebody left %g s before rank %d came", last_enter - first_leave, late);
    }
}

/* An Ibarrier is not complete while a rank has not called it. */
static void ibarrier_waits(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int flag = 0, token = 1;
    if (check_size < 2) return;
    if (check_rank == 0) {
        for (int r = 1; r < check_size; r++) OK(MPI_Recv(&token, 1, MPI_INT, r, 63, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    } else {
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
        for (int i = 0; i < 100; i++) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag, "Ibarrier completed before rank 0 called it");
        OK(MPI_Send(&token, 1, MPI_INT, 0, 63, MPI_COMM_WORLD));
    }
    if (!flag) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    many();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    two_communicators();
    large_beside_messages();
    barrier_holds(0);
    barrier_holds(1);
    ibarrier_waits();
    return check_end();
}
