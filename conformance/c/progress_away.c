/* Messages go on while the program is away from MPI for random times around those at which a progress thread takes over
 * and is sent back: point-to-point, persistent, and a reduction with a function of the user's, which no other
 * thread may call. */
#include "lanes.h"

#include <pthread.h>
#include <time.h>

#define LANES 6
#define ROUNDS 60
#define WORDS_MAX 100000

static pthread_t main_thread;
static int calls, foreign_calls;
static const int words[LANES] = {2, 1000, 5000, 20000, 60000, WORDS_MAX};

static void add(void *input, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    calls++;
    if (!pthread_equal(pthread_self(), main_thread)) foreign_calls++;
    for (int i = 0; i < *length; i++) ((int *)inout)[i] += ((int *)input)[i];
}

static uint32_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

static void be_away(void)
{
    uint32_t what = random_below(4);
    struct timespec time = {0, (long)random_below(3000000)}, begin, now;
    if (what == 0) return;
    if (what < 3) {
        nanosleep(&time, NULL);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < time.tv_nsec);
}

int main(int argc, char **argv)
{
    MPI_Op op;
    MPI_Request requests[2 * LANES + 1], again[2];
    main_thread = pthread_self();
    check_start(&argc, &argv);
    random_state = 77u + (uint32_t)check_rank;
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    lanes_make(words, LANES);
    uint32_t *ping = malloc(4 * WORDS_MAX), *pong = malloc(4 * WORDS_MAX);
    OK(MPI_Op_create(add, 1, &op));
    OK(MPI_Send_init(ping, WORDS_MAX, MPI_UINT32_T, right, 50, MPI_COMM_WORLD, &again[0]));
    OK(MPI_Recv_init(pong, WORDS_MAX, MPI_UINT32_T, left, 50, MPI_COMM_WORLD, &again[1]));
    for (int round = 0; round < ROUNDS; round++) {
        int ones[300], sums[300], flag, wrong = 0;
        for (int i = 0; i < 300; i++) ones[i] = check_rank + i;
        for (int lane = 0; lane < LANES; lane++) {
            lane_start(lane, words[lane], round, &requests[lane], &requests[LANES + lane]);
            if (random_below(3) == 0) be_away();
        }
        OK(MPI_Iallreduce(ones, sums, 300, MPI_INT, op, MPI_COMM_WORLD, &requests[2 * LANES]));
        for (int i = 0; i < WORDS_MAX; i++) ping[i] = (uint32_t)(check_rank + i + round);
        OK(MPI_Startall(2, again));
        be_away();
        for (uint32_t i = random_below(4); i > 0; i--) {
            OK(MPI_Testall(2, again, &flag, MPI_STATUSES_IGNORE));
            be_away();
        }
        OK(MPI_Waitall(2 * LANES + 1, requests, MPI_STATUSES_IGNORE));
        be_away();
        OK(MPI_Waitall(2, again, MPI_STATUSES_IGNORE));
        wrong += lanes_wrong(words, LANES, round);
        for (int i = 0; i < WORDS_MAX; i++) wrong += pong[i] != (uint32_t)(left + i + round);
        for (int i = 0; i < 300; i++) wrong += sums[i] != check_size * (check_size - 1) / 2 + i * check_size;
        CHECK(wrong == 0, "%d wrong words in round %d", wrong, round);
    }
    CHECK(foreign_calls == 0, "%d of %d calls of the user's function by another thread", foreign_calls, calls);
    OK(MPI_Request_free(&again[0]));
    OK(MPI_Request_free(&again[1]));
    OK(MPI_Op_free(&op));
    return check_end();
}
