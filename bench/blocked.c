/* CPU time of a rank (1) that waits for a message which comes after a second, in percent of the time it waits: in a receive, in
 * a wait for any request, in a probe. */
#include "bench.h"

#include <sys/resource.h>
#include <time.h>

static double used_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void wait_in(int how, char *value)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int index;
    if (how == 2) MPI_Probe(0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (how != 1) {
        MPI_Recv(value, 1, MPI_CHAR, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(value, 1, MPI_CHAR, 0, how, MPI_COMM_WORLD, &requests[0]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"blocked_receive", "blocked_wait_any", "blocked_probe"};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    for (int how = 0; how < 3; how++) {
        struct timespec second = {1, 0};
        char value = 1;
        double percent = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (bench_rank == 0) {
            nanosleep(&second, NULL);
            MPI_Send(&value, 1, MPI_CHAR, 1, how, MPI_COMM_WORLD);
            MPI_Recv(&percent, 1, MPI_DOUBLE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            double begin = MPI_Wtime(), before = used_s();
            wait_in(how, &value);
            percent = 100 * (used_s() - before) / (MPI_Wtime() - begin);
            MPI_Send(&percent, 1, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD);
        }
        bench_result(names[how], 0, percent, "%cpu");
    }
    MPI_Finalize();
    return 0;
}
