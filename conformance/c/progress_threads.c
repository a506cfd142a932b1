/* A thread that waits is woken by what another thread's call brings about: a message that comes while the other thread polls
 * for another one, a message to the own rank, a generalized request that the other completes, a barrier in which the other
 * ranks come late. In every progress mode, also while both wait, and beside threads that compute. Sleepers usually look again by themselves ten times a second;
 * here they do not (AYATORI_SLEEP_MAX_MS), so that a wake-up that is missed makes the program hang. */
#include "check.h"
#include "general.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#define ROUNDS 20
#define PAUSE_US 3000
#define SLEEP_MAX_MS "3600000"

enum { PROBE, RECEIVE, OWN, GENERAL, BARRIER, HOWS };
static const char *const names[HOWS] = {"a probe", "a receive", "a message to itself", "a generalized request", "a barrier"};

static int left, right;
static MPI_Comm comms[HOWS];
static MPI_Request general;

static void pause_briefly(void)
{
    struct timespec time = {0, PAUSE_US * 1000L};
    nanosleep(&time, NULL);
}

/* Waits, in a thread of its own. */
static void *wait_for(void *argument)
{
    int how = *(int *)argument, value = -1;
    MPI_Status status;
    MPI_Comm comm = comms[how];
    if (how == PROBE) OK(MPI_Probe(left, how, comm, &status));
    if (how == PROBE || how == RECEIVE) OK(MPI_Recv(&value, 1, MPI_INT, left, how, comm, MPI_STATUS_IGNORE));
    if (how == OWN) OK(MPI_Recv(&value, 1, MPI_INT, check_rank, how, comm, MPI_STATUS_IGNORE));
    if (how == GENERAL) OK(MPI_Wait(&general, MPI_STATUS_IGNORE));
    if (how == BARRIER) OK(MPI_Barrier(comm));
    if (how < GENERAL) CHECK(value == how, "%s brought %d", names[how], value);
    return NULL;
}

/* Brings about what this rank's thread, or the right one's, waits for. */
static void bring(int how, int round)
{
    int flag;
    MPI_Comm comm = comms[how];
    if (how == BARRIER) return;
    pause_briefly();
    if (how == GENERAL) {
        OK(MPI_Grequest_complete(general));
        return;
    }
    OK(MPI_Send(&how, 1, MPI_INT, how == OWN ? check_rank : right, how, comm));
    /* Whose call it is that finds the message is left to chance. */
    for (int i = 0; i < 20 * (round % 3); i++) OK(MPI_Iprobe(left, 99, comm, &flag, MPI_STATUS_IGNORE));
}

static void rounds(int how)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        if (how == GENERAL) OK(general_start(&general));
        if (how == BARRIER && check_rank == round % check_size) pause_briefly();
        CHECK(pthread_create(&thread, NULL, wait_for, &how) == 0, "no thread");
        bring(how, round);
        pthread_join(thread, NULL);
    }
}

/* Computes, so that whoever yields waits for milliseconds: calls sleep at once then. */
static void *compute(void *argument)
{
    atomic_int *is_over = argument;
    while (!atomic_load(is_over)) continue;
    return NULL;
}

static void all_rounds(void)
{
    for (int how = 0; how < HOWS; how++) rounds(how);
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t computing;
    static atomic_int is_over;
    setenv("AYATORI_SLEEP_MAX_MS", SLEEP_MAX_MS, 1);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int how = 0; how < HOWS; how++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[how]));
#ifdef MPIX_AYATORI
    for (int mode = 0; mode < 3; mode++) {
        int now;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPIX_Progress_set(mode, &now));
        all_rounds();
        atomic_store(&is_over, 0);
        CHECK(pthread_create(&computing, NULL, compute, &is_over) == 0, "no thread");
        all_rounds();
        atomic_store(&is_over, 1);
        pthread_join(computing, NULL);
    }
#else
    all_rounds();
#endif
    for (int how = 0; how < HOWS; how++) OK(MPI_Comm_free(&comms[how]));
    return check_end();
}
