/* MPI_THREAD_MULTIPLE: threads exchange with their counterparts at once; each waits for its own. */
#include "check.h"

#include <pthread.h>

#define THREADS 4
#define ROUNDS 500

static int failures[THREADS];

static void *exchange(void *argument)
{
    int thread = (int)(intptr_t)argument, right = (check_rank + 1) % check_size;
    int left = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 50 == 49 ? 40000 : 16;
        static __thread char out[40000], in[40000];
        MPI_Request requests[2];
        MPI_Status statuses[2];
        pattern_fill(out, (size_t)bytes, (uint32_t)(check_rank * 1000 + thread * 100 + round));
        if (MPI_Irecv(in, bytes, MPI_BYTE, left, thread, MPI_COMM_WORLD, &requests[0]) ||
            MPI_Isend(out, bytes, MPI_BYTE, right, thread, MPI_COMM_WORLD, &requests[1]) ||
            MPI_Waitall(2, requests, statuses) ||
            pattern_wrong(in, (size_t)bytes, (uint32_t)(left * 1000 + thread * 100 + round)) >= 0)
            failures[thread]++;
    }
    return NULL;
}

/* A blocking receive in one thread must not keep another from sending the message it waits for. */
static void *wait_for_sibling(void *argument)
{
    int value = 0;
    MPI_Recv(&value, 1, MPI_INT, check_rank, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *(int *)argument = value;
    return NULL;
}

static void *collective(void *argument)
{
    MPI_Comm comm = *(MPI_Comm *)argument;
    intptr_t wrong = 0;
    for (int i = 0; i < 100; i++) {
        int one = 1, sum = 0;
        if (MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm) || sum != check_size) wrong++;
    }
    return (void *)wrong;
}

int main(int argc, char **argv)
{
    int provided = 0, got = 0, value = 7;
    pthread_t threads[THREADS], waiter;
    MPI_Comm comms[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (check_rank == 0) printf("Skipped: no MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return 0;
    }
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, exchange, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) CHECK(!failures[t], "thread %d: %d of %d rounds failed", t, failures[t], ROUNDS);
    pthread_create(&waiter, NULL, wait_for_sibling, &got);
    OK(MPI_Send(&value, 1, MPI_INT, check_rank, 99, MPI_COMM_WORLD));
    pthread_join(waiter, NULL);
    CHECK(got == 7, "the waiting thread got %d", got);
    for (int i = 0; i < 2; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, collective, &comms[i]);
    for (int i = 0; i < 2; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        CHECK(!wrong, "%ld wrong sums in communicator %d", (long)(intptr_t)wrong, i);
    }
    for (int i = 0; i < 2; i++) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
