/* Jobs that hang, each in its own way, for `cargo xtask why-test`; and one that does not. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char buffer[1 << 20];

static void receive(int source, int tag) {
    MPI_Recv(buffer, sizeof buffer, MPI_CHAR, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sum(void *input, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    for (int n = 0; n < *count; n++) ((int *)inout)[n] += ((int *)input)[n];
}

static void compute(void) {
    for (volatile unsigned long n = 0;; n++) {
    }
}

/* Traffic of all kinds, every value checked, until a file appears. */
static void healthy(const char *stop) {
    int goes_on = 1;
    long rounds = 0;
    while (goes_on) {
        int right = (rank + 1) % size, left = (rank + size - 1) % size, out = rank * 1000 + (int)(rounds % 1000), in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in != left * 1000 + (int)(rounds % 1000)) { printf("wrong neighbour value\n"); MPI_Abort(MPI_COMM_WORLD, 9); }
        MPI_Request requests[2];
        memset(buffer, rank + 1, 200000);
        MPI_Irecv(buffer + 400000, 200000, MPI_CHAR, left, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(buffer, 200000, MPI_CHAR, right, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (buffer[400000] != left + 1 || buffer[599999] != left + 1) { printf("wrong long message\n"); MPI_Abort(MPI_COMM_WORLD, 9); }
        int mine = rank + (int)rounds, sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2 + size * (int)rounds) { printf("wrong sum\n"); MPI_Abort(MPI_COMM_WORLD, 9); }
        goes_on = access(stop, F_OK) != 0;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        rounds++;
    }
    if (rank == 0) printf("healthy: %ld rounds, all right\n", rounds);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    int next = (rank + 1) % size, value = rank, result;
    if (!strcmp(how, "recv")) { /* a cycle of all */
        receive(next, 5 + rank);
    } else if (!strcmp(how, "ssend")) {
        MPI_Ssend(&value, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
    } else if (!strcmp(how, "long")) { /* the same with messages too long to be sent unasked */
        MPI_Send(buffer, sizeof buffer, MPI_CHAR, next, 7, MPI_COMM_WORLD);
    } else if (!strcmp(how, "tag")) {
        if (rank == 0) MPI_Ssend(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
        if (rank == 1) receive(0, 6);
        receive(0, 1);
    } else if (!strcmp(how, "any")) {
        receive(MPI_ANY_SOURCE, MPI_ANY_TAG);
    } else if (!strcmp(how, "waitall")) {
        MPI_Request requests[2];
        MPI_Irecv(buffer, 4, MPI_CHAR, next, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(buffer + 4, 4, MPI_CHAR, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (!strcmp(how, "waitany")) {
        MPI_Request requests[2];
        int which;
        MPI_Irecv(buffer, 4, MPI_CHAR, next, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(buffer + 4, 4, MPI_CHAR, next, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "probe")) {
        MPI_Status status;
        MPI_Probe(next, 9, MPI_COMM_WORLD, &status);
    } else if (!strcmp(how, "sendrecv")) {
        MPI_Sendrecv(&value, 1, MPI_INT, next, 1, &result, 1, MPI_INT, next, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "collective")) { /* the last is in another operation */
        if (rank == size - 1) MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        else MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    } else if (!strcmp(how, "reduction")) { /* beside one by a function of the program's, which ends */
        MPI_Op op;
        MPI_Request number, reduction;
        MPI_Op_create(sum, 1, &op);
        MPI_Irecv(&result, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &number);
        MPI_Iallreduce(&value, buffer, 1, MPI_INT, op, MPI_COMM_WORLD, &reduction);
        if (rank == 1) {
            MPI_Wait(&reduction, MPI_STATUS_IGNORE);
            receive(0, 9);
        }
        MPI_Wait(&number, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "absent")) { /* the last never comes to the barrier */
        if (rank == size - 1) receive(0, 3);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(how, "part")) { /* on a communicator with a name */
        MPI_Comm part;
        MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &part);
        MPI_Comm_set_name(part, "halves");
        int part_rank;
        MPI_Comm_rank(part, &part_rank);
        MPI_Recv(buffer, 4, MPI_CHAR, part_rank ^ 1, 4, part, MPI_STATUS_IGNORE);
    } else if (!strcmp(how, "leaves")) { /* one goes home */
        if (rank == 0) receive(1, 1);
    } else if (!strcmp(how, "lock") || !strcmp(how, "locked")) { /* of a window in shared memory */
        MPI_Win win;
        int *base;
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        MPI_Win_set_name(win, "halo");
        if (!strcmp(how, "lock")) { /* each holds its own and wants its neighbour's */
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_lock(rank == 0 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, next, 0, win);
        } else { /* rank 0 computes and holds one */
            if (rank == 0) MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0) compute();
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        }
    } else if (!strcmp(how, "served")) { /* rank 1 waits and always finds something to do for rank 0 */
        MPI_Win win;
        MPI_Win_create(buffer, sizeof buffer, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_lock_all(0, win);
        while (rank == 0) {
            for (int n = 0; n < 100; n++) MPI_Accumulate(&value, 1, MPI_INT, 1, n, 1, MPI_INT, MPI_SUM, win);
            MPI_Win_flush(1, win);
        }
        receive(0, 3);
    } else if (!strcmp(how, "computes")) {
        if (rank == 1) compute();
        receive(1, 1);
    } else if (!strcmp(how, "sleeps")) {
        if (rank == 1) sleep(1000);
        receive(1, 1);
    } else if (!strcmp(how, "stops")) {
        if (rank == 1) raise(SIGSTOP);
        receive(1, 1);
    } else if (!strcmp(how, "polls")) {
        int flag = 0;
        MPI_Status status;
        while (rank == 1) MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, &status);
        receive(1, 1);
    } else if (!strcmp(how, "healthy")) {
        healthy(argc > 2 ? argv[2] : "/");
    } else {
        fprintf(stderr, "how?\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
