/* What calls of the short path cost, to be counted by valgrind's callgrind (`cargo xtask instructions`).
 *
 * Two ranks take turns by a counter that MPI knows nothing of, so that each call finds what it is to find: a receive its
 * message, a wait its completion. Each counted call stands in a function of its own, count_NAME; nothing else is counted.
 *
 *   instructions TURNS FILE        FILE: a name for the shared counter, removed at the end */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 8
#define TAG 7
/* Announced, and copied by the kernel. */
#define LONG_BYTES (1 << 20)

static atomic_int *counter;
static int rank, other, step;
static char out[64], in[64], long_out[LONG_BYTES], long_in[LONG_BYTES];
static MPI_Request request;

__attribute__((noinline)) static void count_send(void)
{
    MPI_Send(out, BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD);
}

__attribute__((noinline)) static void count_recv(void)
{
    MPI_Recv(in, BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) static void count_sendrecv(void)
{
    MPI_Sendrecv(out, BYTES, MPI_CHAR, other, TAG, in, BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) static void count_isend(void)
{
    MPI_Isend(out, BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD, &request);
}

__attribute__((noinline)) static void count_irecv(void)
{
    MPI_Irecv(in, BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD, &request);
}

__attribute__((noinline)) static void count_wait_send(void)
{
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) static void count_wait_recv(void)
{
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) static void count_isend_long(void)
{
    MPI_Isend(long_out, LONG_BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD, &request);
}

__attribute__((noinline)) static void count_recv_long(void)
{
    MPI_Recv(long_in, LONG_BYTES, MPI_CHAR, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) static void count_wait_long(void)
{
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* A round of progress that finds nothing. */
__attribute__((noinline)) static void count_test(void)
{
    int flag;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

/* The next step is `mine` or the other rank's. */
static void take_turn(int mine, void (*call)(void))
{
    while (atomic_load(counter) < step) sched_yield();
    step++;
    if (!mine) return;
    call();
    atomic_fetch_add(counter, 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    int file = open(argv[2], O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0) MPI_Abort(MPI_COMM_WORLD, 3);
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 3);
    counter = memory;
    for (int i = 0, turns = atoi(argv[1]); i < turns; i++) {
        for (int sender = 0; sender < 2; sender++) {
            int sends = rank == sender;
            take_turn(sends, count_send);
            take_turn(!sends, count_recv);
            take_turn(sends, count_send);
            take_turn(!sends, count_sendrecv);
            take_turn(sends, count_recv);
            take_turn(!sends, count_irecv);
            take_turn(!sends, count_test);
            take_turn(sends, count_isend);
            take_turn(sends, count_wait_send);
            take_turn(!sends, count_wait_recv);
            take_turn(sends, count_isend_long);
            take_turn(!sends, count_recv_long);
            take_turn(sends, count_wait_long);
        }
    }
    unlink(argv[2]);
    MPI_Finalize();
    return 0;
}
