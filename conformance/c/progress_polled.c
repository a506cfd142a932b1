/* A rank that tests again and again lets others run where the ranks of its host outnumber the CPUs: what it
 * looks for may be theirs to send. One of some tests that find nothing calls sched_yield, which this program
 * counts in place of the C library's. Where each rank has a CPU none does. */
#define _GNU_SOURCE
#include "check.h"

#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#ifdef MPIX_AYATORI
#include <sys/syscall.h>
#include <unistd.h>

#define TESTS 1000
/* At least one of so many tests yields. */
#define TESTS_PER_YIELD_MAX 20

static long yields_count;

int sched_yield(void)
{
    if (syscall(SYS_gettid) == getpid()) yields_count++; /* not the library's threads */
    return (int)syscall(SYS_sched_yield);
}

/* Looks for what never comes. */
static void look(int how, MPI_Request *requests)
{
    int flag = 1, index;
    MPI_Message message;
    switch (how) {
    case 0: OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE)); break;
    case 1: OK(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE)); break;
    case 2: OK(MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE)); break;
    case 3: OK(MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE)); break;
    case 4: OK(MPI_Improbe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE)); break;
    default: OK(MPI_Request_get_status(requests[1], &flag, MPI_STATUS_IGNORE));
    }
    CHECK(!flag, "way %d found something", how);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        "Test", "Testall", "Testany", "Iprobe", "Improbe", "Request_get_status",
    };
    int values[2], mode, ranks_count;
    MPI_Request requests[2];
    MPI_Comm host;
    /* The launcher's word: this host has one CPU. */
    setenv("AYATORI_CPUS", "1", 1);
    check_start(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks_count);
    MPI_Comm_free(&host);
    OK(MPIX_Progress_get(&mode));
    int must_yield = ranks_count > 1 || mode == MPIX_PROGRESS_OFFLOAD;
    for (int i = 0; i < 2; i++) {
        OK(MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[i]));
    }
    for (int how = 0; how < 6; how++) {
        yields_count = 0;
        for (int test = 0; test < TESTS; test++) look(how, requests);
        if (must_yield) {
            CHECK(yields_count >= TESTS / TESTS_PER_YIELD_MAX, "%ld yields in %d calls of MPI_%s",
                  yields_count, TESTS, names[how]);
        } else {
            CHECK(yields_count == 0, "%ld yields in calls of MPI_%s with a CPU to itself", yields_count,
                  names[how]);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Send(&i, 1, MPI_INT, (check_rank + 1) % check_size, i, MPI_COMM_WORLD));
    }
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    return check_end();
}
#else
int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    if (check_rank == 0) printf("Skipped: about another library\n");
    MPI_Finalize();
    return 0;
}
#endif
