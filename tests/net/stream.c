/* Rank 0 sends rank 1 messages of 1 MiB, four at a time; every byte that arrives is looked at. For tests that do something to
 * the rails meanwhile. The argument is a number of seconds, or the path of a file at whose appearance the sender stops. At the
 * end rank 1 prints when how much had arrived,
 *
 *     AT <seconds since the epoch> <bytes so far>
 *
 * and "No Errors". */
#include "until.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (1 << 18)
#define WINDOW 4
/* Not a multiple of the window: what a message leaves behind is never what the next one there brings. */
#define PATTERNS 7
#define LOG_MAX 200000
#define LOG_INTERVAL_S 0.001
#define END UINT32_MAX

static uint32_t *patterns[PATTERNS], *in[WINDOW];
static struct { double at; uint64_t bytes; } entries[LOG_MAX];

static void *memory(void)
{
    void *p = malloc(WORDS * sizeof(uint32_t));
    if (!p) exit(3);
    return p;
}

static void send_all(const char *until)
{
    MPI_Request requests[WINDOW];
    double begin = until_now_s();
    uint32_t end = END, number = 0;
    for (int w = 0; w < WINDOW; w++) requests[w] = MPI_REQUEST_NULL;
    for (; until_goes_on(until, begin); number++) {
        int slot = (int)(number % WINDOW);
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        MPI_Isend(patterns[number % PATTERNS], WORDS, MPI_UINT32_T, 1, 0, MPI_COMM_WORLD, &requests[slot]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    for (int w = 0; w < WINDOW; w++) MPI_Send(&end, 1, MPI_UINT32_T, 1, 0, MPI_COMM_WORLD);
}

static int receive_all(void)
{
    MPI_Request requests[WINDOW];
    uint64_t bytes = 0;
    int errors = 0, count = 0;
    for (int w = 0; w < WINDOW; w++) {
        memset(in[w], 0, WORDS * sizeof(uint32_t));
        MPI_Irecv(in[w], WORDS, MPI_UINT32_T, 0, 0, MPI_COMM_WORLD, &requests[w]);
    }
    for (uint32_t number = 0;; number++) {
        int slot = (int)(number % WINDOW), got;
        MPI_Status status;
        MPI_Wait(&requests[slot], &status);
        MPI_Get_count(&status, MPI_UINT32_T, &got);
        if (got == 1) break;
        double at = until_now_s();
        errors += got != WORDS || memcmp(in[slot], patterns[number % PATTERNS], WORDS * sizeof(uint32_t)) != 0;
        bytes += (uint64_t)got * sizeof(uint32_t);
        if (count == 0 || (count < LOG_MAX && at - entries[count - 1].at >= LOG_INTERVAL_S)) {
            entries[count].at = at;
            entries[count++].bytes = bytes;
        } else {
            entries[count - 1].bytes = bytes;
        }
        MPI_Irecv(in[slot], WORDS, MPI_UINT32_T, 0, 0, MPI_COMM_WORLD, &requests[slot]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) printf("AT %.6f %llu\n", entries[i].at, (unsigned long long)entries[i].bytes);
    return errors;
}

int main(int argc, char **argv)
{
    int rank, size, errors = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int p = 0; p < PATTERNS; p++) {
        patterns[p] = memory();
        for (uint32_t i = 0; i < WORDS; i++) patterns[p][i] = i * 2654435761u + (uint32_t)p;
    }
    for (int w = 0; w < WINDOW; w++) in[w] = memory();
    if (rank == 0) send_all(argc > 1 ? argv[1] : "5");
    else errors = receive_all();
    if (rank == 1) {
        if (errors) printf("%d wrong messages\n", errors);
        else printf("No Errors\n");
    }
    MPI_Finalize();
    return errors != 0;
}
