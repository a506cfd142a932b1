/* A rank that waits for long sleeps: in a receive, in a wait for any request, in a probe. What is counted are the sleeps of
 * all threads of the process (voluntary context switches): the rank that waits falls asleep at all, and wakes only a few times
 * a second until what it waits for comes. What a wake-up may poll is bounded by counts (`WaitPolicy` in crates/devices).
 * (The time it takes of a CPU, `bench/blocked.c` measures.) */
#define _GNU_SOURCE
#include "check.h"

#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif
#include <sys/resource.h>
#include <time.h>

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif
/* The first message comes after so long; if a rank had no turn on a CPU to fall asleep in, again after twice the time. */
#define SECONDS_MIN 0.5
#define SECONDS_MAX 40
/* Wake-ups that the begin and the end of a wait may cost, and how many a second beside: sleepers look ten times a second
 * whether their peers live, and there are up to three threads of the library's. */
#define WAKES_MAX 100
#define WAKES_PER_S_MAX 50
/* In mode inline nothing wakes one of several threads: each looks every 4 ms (docs/progress.md). */
#define LOOKS_PER_S 250

static int wakes_per_s_max = WAKES_PER_S_MAX;

static long sleeps(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return usage.ru_nvcsw;
}

/* Waits. Whether this thread slept. */
static int wait_in(int how)
{
    int value = 0, index = 0;
    MPI_Request requests[2];
    MPI_Status status;
    double begin = MPI_Wtime();
    long by_all = sleeps(RUSAGE_SELF), by_thread = sleeps(RUSAGE_THREAD);
    if (how == 0) {
        OK(MPI_Recv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (how == 1) {
        OK(MPI_Irecv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, &requests[0]));
        requests[1] = MPI_REQUEST_NULL;
        OK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Probe(0, how, MPI_COMM_WORLD, &status));
    }
    by_thread = sleeps(RUSAGE_THREAD) - by_thread;
    by_all = sleeps(RUSAGE_SELF) - by_all;
    double took = MPI_Wtime() - begin;
    if (how == 2) OK(MPI_Recv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(value == how + 10, "received %d", value);
    double most = WAKES_MAX + wakes_per_s_max * took;
    CHECK((double)by_all <= most, "wait %d: %ld wake-ups in %.1f s", how, by_all, took);
    if (getenv("CHECK_SHOW")) fprintf(stderr, "wait %d: %ld wake-ups in %.1f s, %ld of the caller\n", how, by_all, took, by_thread);
    return by_thread > 0;
}

/* One wait of every rank but the first, which sends after so long. Whether all have slept. */
static int all_slept(int how, double seconds)
{
    int slept = 1, all = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
        int value = how + 10;
        nanosleep(&time, NULL);
        for (int to = 1; to < check_size; to++) OK(MPI_Send(&value, 1, MPI_INT, to, how, MPI_COMM_WORLD));
    } else {
        slept = wait_in(how);
    }
    OK(MPI_Allreduce(&slept, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    return all;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, LEVEL, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK_NEED(2);
#ifdef MPIX_AYATORI
    int mode;
    OK(MPIX_Progress_get(&mode));
    if (mode == MPIX_PROGRESS_INLINE && provided == MPI_THREAD_MULTIPLE) wakes_per_s_max += LOOKS_PER_S;
#endif
    for (int how = 0; how < 3; how++) {
        double seconds = SECONDS_MIN;
        while (!all_slept(how, seconds) && seconds < SECONDS_MAX) seconds *= 2;
        CHECK(seconds < SECONDS_MAX, "wait %d: a rank waits %d s without sleeping", how, SECONDS_MAX);
    }
    return check_end();
}
