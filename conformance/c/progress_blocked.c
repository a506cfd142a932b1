/* A rank that waits for long leaves the CPU to others: at most 1 % of a core, in a receive, in a wait for any request, in a
 * probe. The time is `SECONDS`, or what the first argument says, shared by the three. */
#include "check.h"

#include <sys/resource.h>
#include <time.h>

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif
#define SECONDS 2.0

static double used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void wait_in(int how)
{
    int value = 0, index = 0;
    MPI_Request requests[2];
    MPI_Status status;
    double begin = MPI_Wtime(), before = used();
    if (how == 0) {
        OK(MPI_Recv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (how == 1) {
        OK(MPI_Irecv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, &requests[0]));
        requests[1] = MPI_REQUEST_NULL;
        OK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Probe(0, how, MPI_COMM_WORLD, &status));
    }
    double took = MPI_Wtime() - begin, cpu = used() - before;
    if (how == 2) OK(MPI_Recv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(value == how + 10, "received %d", value);
    CHECK(cpu <= 0.01 * took, "wait %d: %.1f ms of CPU in %.1f s: %.2f %%", how, cpu * 1e3, took, 100 * cpu / took);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, LEVEL, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK_NEED(2);
    double seconds = (argc > 1 ? atof(argv[1]) : SECONDS) / 3;
    for (int how = 0; how < 3; how++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0) {
            struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
            int value = how + 10;
            nanosleep(&time, NULL);
            for (int to = 1; to < check_size; to++) OK(MPI_Send(&value, 1, MPI_INT, to, how, MPI_COMM_WORLD));
        } else {
            wait_in(how);
        }
    }
    return check_end();
}
