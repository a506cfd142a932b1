/* The progress mode changes while messages of every kind are under way: what began in one mode ends in another, right and
 * in order. Begun in a mode and looked at in the next: sends and receives of all lengths, more of them than a queue of
 * commands holds, probes, persistent and collective operations, one with a function of the user's, which no other thread
 * may call; requests that are given up or cancelled. */
#include "lanes.h"

#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif
#include <pthread.h>

#ifdef MPIX_AYATORI
#define ROUNDS 40
#define LANES 5
#define SHORTS 600

static const int words[LANES] = {1, 40, 3000, 50000, 200000};
static pthread_t main_thread;
static int foreign_calls;

static void add(void *input, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    if (!pthread_equal(pthread_self(), main_thread)) foreign_calls++;
    for (int i = 0; i < *length; i++) ((int *)inout)[i] += ((int *)input)[i];
}

static void go_over(int number)
{
    int provided = -1, now = -2;
    OK(MPIX_Progress_set(number % 3, &provided));
    OK(MPIX_Progress_get(&now));
    CHECK(provided == now, "mode %d, of which %d was provided", now, provided);
    CHECK(check_size == 1 || provided == number % 3, "mode %d instead of %d", provided, number % 3);
}

static int right, left;

/* More short messages than fit any queue, with nobody receiving them yet. */
static void shorts(int number)
{
    MPI_Request requests[SHORTS];
    int values[SHORTS], got = -1, wrong = 0;
    for (int i = 0; i < SHORTS; i++) {
        values[i] = check_rank * 1000 + i;
        OK(MPI_Isend(&values[i], 1, MPI_INT, right, 30, MPI_COMM_WORLD, &requests[i]));
    }
    go_over(number);
    for (int i = 0; i < SHORTS; i++) {
        MPI_Status status;
        if (i % 100 == 0) {
            OK(MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            CHECK(status.MPI_TAG == 30, "probed tag %d", status.MPI_TAG);
        }
        OK(MPI_Recv(&got, 1, MPI_INT, left, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        wrong += got != left * 1000 + i;
    }
    CHECK(wrong == 0, "%d short messages out of order", wrong);
    OK(MPI_Waitall(SHORTS, requests, MPI_STATUSES_IGNORE));
}

static void given_up(int number, int round)
{
    MPI_Request freed, never;
    MPI_Status status;
    int flag = 0;
    static uint32_t sent[5000], got[5000];
    for (int i = 0; i < 5000; i++) sent[i] = (uint32_t)(check_rank + i + round);
    OK(MPI_Irecv(got, 1, MPI_INT, left, 77, MPI_COMM_WORLD, &never));
    OK(MPI_Isend(sent, 5000, MPI_UINT32_T, right, 31, MPI_COMM_WORLD, &freed));
    OK(MPI_Request_free(&freed));
    if (number % 2) go_over(number);
    OK(MPI_Cancel(&never));
    OK(MPI_Wait(&never, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag, "a receive that nothing matches was not cancelled");
    OK(MPI_Recv(got, 5000, MPI_UINT32_T, left, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got[4999] == (uint32_t)(left + 4999 + round), "wrong data of a request that was given up");
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    MPI_Op op;
    MPI_Comm twin;
    MPI_Request requests[2 * LANES + 2], again[3];
    main_thread = pthread_self();
    check_start(&argc, &argv);
    right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    lanes_make(words, LANES);
    int ping[100], pong[100], mine[8], theirs[8];
    OK(MPI_Op_create(add, 1, &op));
    for (int round = 0; round < ROUNDS; round++) {
        int ones[300], sums[300], max_in = check_rank * 7 + round, max = -1, wrong = 0, flag;
        /* Each rank is in a mode of its own. */
        int number = round + check_rank;
        go_over(number);
        OK(MPI_Send_init(ping, 100, MPI_INT, right, 50, MPI_COMM_WORLD, &again[0]));
        OK(MPI_Recv_init(pong, 100, MPI_INT, left, 50, MPI_COMM_WORLD, &again[1]));
        OK(MPI_Allreduce_init(mine, theirs, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &again[2]));
        for (int i = 0; i < 300; i++) ones[i] = check_rank + i;
        for (int lane = 0; lane < LANES; lane++)
            lane_start(lane, words[lane], round, &requests[lane], &requests[LANES + lane]);
        OK(MPI_Iallreduce(ones, sums, 300, MPI_INT, op, MPI_COMM_WORLD, &requests[2 * LANES]));
        OK(MPI_Iallreduce(&max_in, &max, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[2 * LANES + 1]));
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < 100; i++) ping[i] = check_rank + i + turn;
            for (int i = 0; i < 8; i++) mine[i] = i + turn;
            OK(MPI_Startall(3, again));
            go_over(++number);
            OK(MPI_Testall(3, again, &flag, MPI_STATUSES_IGNORE));
            if (!flag) OK(MPI_Waitall(3, again, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 100; i++) wrong += pong[i] != left + i + turn;
            for (int i = 0; i < 8; i++) wrong += theirs[i] != (i + turn) * check_size;
        }
        OK(MPI_Waitall(2 * LANES + 2, requests, MPI_STATUSES_IGNORE));
        wrong += lanes_wrong(words, LANES, round);
        for (int i = 0; i < 300; i++) wrong += sums[i] != check_size * (check_size - 1) / 2 + i * check_size;
        CHECK(wrong == 0 && max == (check_size - 1) * 7 + round, "%d wrong words in round %d, largest %d", wrong, round, max);
        shorts(++number);
        given_up(++number, round);
        OK(MPI_Allreduce(ones, sums, 300, MPI_INT, op, MPI_COMM_WORLD));
        CHECK(sums[299] == check_size * (check_size - 1) / 2 + 299 * check_size, "a sum of the user's is %d", sums[299]);
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
        OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, right, 1, &flag, 1, MPI_INT, left, 1, twin, MPI_STATUS_IGNORE));
        CHECK(flag == left, "%d came from %d", flag, left);
        OK(MPI_Bcast(mine, 8, MPI_INT, round % check_size, twin));
        OK(MPI_Comm_free(&twin));
        for (int i = 0; i < 3; i++) OK(MPI_Request_free(&again[i]));
    }
    CHECK(foreign_calls == 0, "%d calls of the user's function by another thread", foreign_calls);
    OK(MPI_Op_free(&op));
    return check_end();
}
#else
int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    if (check_rank == 0) printf("Skipped: this library has no progress modes\n");
    MPI_Finalize();
    return 0;
}
#endif
