/* Calls wait beside threads that compute, where a call sleeps at once instead of yielding. A round of
 * progress that leaves work is followed by another, and a window's lock that becomes free is taken. A sleep
 * does not end by itself (AYATORI_SLEEP_MAX_MS), so a call that sleeps too early, or that no other rank
 * wakes, hangs. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 20
#define COUNT 3001
#define SLEEP_MAX_MS "3600000"

static atomic_int is_over;

static void *compute(void *argument)
{
    (void)argument;
    while (!atomic_load(&is_over)) continue;
    return NULL;
}

/* Waits for one request in one of three calls. */
static void wait_in(int how, MPI_Request *request)
{
    int count, at;
    if (how == 0) OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    if (how == 1) OK(MPI_Waitany(1, request, &at, MPI_STATUS_IGNORE));
    if (how == 2) OK(MPI_Waitsome(1, request, &count, &at, MPI_STATUSES_IGNORE));
}

/* Long data from one rank to all and back: to send each part on is work that arrivals leave behind. */
static void to_all_and_back(int *data, int *all)
{
    MPI_Request down, up;
    for (int round = 0; round < ROUNDS; round++) {
        int root = round % check_size;
        for (int i = 0; i < COUNT; i++) data[i] = check_rank == root ? round + i : -1;
        OK(MPI_Ibcast(data, COUNT, MPI_INT, root, MPI_COMM_WORLD, &down));
        wait_in(round % 3, &down);
        for (int i = 0; i < COUNT; i++) {
            CHECK(data[i] == round + i, "round %d: [%d] is %d", round, i, data[i]);
        }
        OK(MPI_Igather(data, COUNT, MPI_INT, all, COUNT, MPI_INT, root, MPI_COMM_WORLD, &up));
        wait_in(round % 3, &up);
    }
}

/* All want the lock of rank 0's window. */
static void locks(void)
{
    int *word, old;
    MPI_Win win;
    OK(MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win));
    *word = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Get(&old, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_flush(0, win));
        old++;
        OK(MPI_Put(&old, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    if (check_rank == 0) CHECK(*word == ROUNDS * check_size, "counted to %d", *word);
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    pthread_t computing;
    setenv("AYATORI_SLEEP_MAX_MS", SLEEP_MAX_MS, 1);
    check_start(&argc, &argv);
    int *data = check_alloc(COUNT * sizeof *data);
    int *all = check_alloc((size_t)check_size * COUNT * sizeof *all);
    CHECK(pthread_create(&computing, NULL, compute, NULL) == 0, "no thread");
    to_all_and_back(data, all);
    locks();
    atomic_store(&is_over, 1);
    pthread_join(computing, NULL);
    free(data);
    free(all);
    return check_end();
}
