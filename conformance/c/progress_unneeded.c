/* Blocking calls of ranks of one host leave nothing to do, however long they wait: so they start no thread
 * that makes progress, which would take time of their CPUs (docs/progress.md). A receive that is left to be
 * served starts it. */
#define _GNU_SOURCE
#include "check.h"

#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#ifdef MPIX_AYATORI
#include <dirent.h>
#include <time.h>
#include <unistd.h>

#define LONGEST (1 << 20)
#define TURNS 20
/* Hang limit, in seconds. */
#define LIMIT_S 100

static char *out, *in;
static int right, left;
/* The lengths after which there was one of those threads; 0: none. */
static int after_messages, after_operations;

/* The library's threads that make progress. */
static int helpers(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "there is no /proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fgets(name, sizeof name, file)) count += strcmp(name, "mpi-progress\n") == 0;
        fclose(file);
    }
    if (tasks) closedir(tasks);
    return count;
}

static void messages(int bytes)
{
    for (int turn = 0; turn < TURNS; turn++) {
        OK(MPI_Sendrecv(out, bytes, MPI_CHAR, right, 1, in, bytes, MPI_CHAR, left, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
        OK(MPI_Sendrecv_replace(in, bytes, MPI_CHAR, right, 2, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (check_rank == 0) OK(MPI_Send(out, bytes, MPI_CHAR, right, 3, MPI_COMM_WORLD));
        OK(MPI_Recv(in, bytes, MPI_CHAR, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (check_rank != 0) OK(MPI_Send(out, bytes, MPI_CHAR, right, 3, MPI_COMM_WORLD));
    }
    if (!after_messages && helpers() > 0) after_messages = bytes;
}

static void operations(int count)
{
    int block = count / check_size;
    for (int turn = 0; turn < TURNS; turn++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Bcast(in, count, MPI_CHAR, turn % check_size, MPI_COMM_WORLD));
        OK(MPI_Allreduce(out, in, count, MPI_CHAR, MPI_BOR, MPI_COMM_WORLD));
        OK(MPI_Allgather(out, block, MPI_CHAR, in, block, MPI_CHAR, MPI_COMM_WORLD));
        OK(MPI_Alltoall(out, block, MPI_CHAR, in, block, MPI_CHAR, MPI_COMM_WORLD));
    }
    if (!after_operations && helpers() > 0) after_operations = count;
}

/* Ranks of several hosts owe each other acknowledgements when calls end. Asked last: it takes a thread
 * itself. */
static int is_one_host(void)
{
    int size;
    MPI_Comm host;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &size));
    OK(MPI_Comm_free(&host));
    OK(MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    return size == check_size;
}

int main(int argc, char **argv)
{
    int mode = -1;
    MPI_Request request;
    check_start(&argc, &argv);
    CHECK_NEED(2);
    OK(MPIX_Progress_get(&mode));
    int is_assisted = mode == MPIX_PROGRESS_ASSISTED; /* other modes have another thread, or none */
    right = (check_rank + 1) % check_size;
    left = (check_rank + check_size - 1) % check_size;
    out = calloc(1, LONGEST);
    in = calloc(1, LONGEST);
    for (int bytes = 1; bytes <= LONGEST; bytes *= 8) messages(bytes);
    messages(LONGEST);
    for (int bytes = 64; bytes <= LONGEST; bytes *= 8) operations(bytes);

    OK(MPI_Irecv(in, 1, MPI_CHAR, left, 4, MPI_COMM_WORLD, &request));
    /* A thread gives itself its name. */
    for (time_t end = time(NULL) + LIMIT_S; is_assisted && helpers() == 0 && time(NULL) < end;) usleep(1000);
    CHECK(helpers() == 1 || !is_assisted, "no thread looks after a receive that waits");
    OK(MPI_Send(out, 1, MPI_CHAR, right, 4, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (is_assisted && is_one_host()) {
        CHECK(!after_messages, "a thread makes progress after messages of %d bytes", after_messages);
        CHECK(!after_operations, "a thread makes progress after operations of %d bytes", after_operations);
    }
    free(out);
    free(in);
    return check_end();
}
#else
int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    if (check_rank == 0) printf("Skipped: threads that make progress are Ayatori's\n");
    MPI_Finalize();
    return 0;
}
#endif
