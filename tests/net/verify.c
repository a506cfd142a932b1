/* Two ranks send each other messages of many lengths, both ways at once, and look at every word that arrives. For tests that
 * break rails meanwhile. The argument is a number of seconds, or the path of a file at whose appearance they stop. Prints
 * "No Errors", and on stderr how many packets came damaged. */
#include "until.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX (1 << 20)
#define WINDOW 4

static uint32_t *out[WINDOW], *in[WINDOW];

static uint32_t word(uint32_t message, uint32_t sender, uint32_t i)
{
    uint32_t x = message * 2654435761u ^ sender * 40503u ^ i * 2246822519u;
    return x ^ x >> 15;
}

/* What the library counts under this name. */
static unsigned long long count_of(const char *name)
{
    int provided, index, count;
    unsigned long long value = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return 0;
    if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS) {
        MPI_T_pvar_session_create(&session);
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
        MPI_T_pvar_read(session, handle, &value);
        MPI_T_pvar_session_free(&session);
    }
    MPI_T_finalize();
    return value;
}

int main(int argc, char **argv)
{
    int rank, size, errors = 0, go = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *until = argc > 1 ? argv[1] : "5";
    double begin = until_now_s(), longest = 0;
    if (size != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int w = 0; w < WINDOW; w++) {
        out[w] = malloc(WORDS_MAX * sizeof(uint32_t));
        in[w] = malloc(WORDS_MAX * sizeof(uint32_t));
    }
    uint32_t message = 0;
    while (go) {
        MPI_Request requests[2 * WINDOW];
        double turn = MPI_Wtime();
        for (int w = 0; w < WINDOW; w++) {
            uint32_t number = message + (uint32_t)w, words = 1 + number * 7919u % (number % 4 ? 20000u : WORDS_MAX);
            for (uint32_t i = 0; i < words; i++) out[w][i] = word(number, (uint32_t)rank, i);
            MPI_Irecv(in[w], WORDS_MAX, MPI_UINT32_T, 1 - rank, w, MPI_COMM_WORLD, &requests[w]);
            MPI_Isend(out[w], (int)words, MPI_UINT32_T, 1 - rank, w, MPI_COMM_WORLD, &requests[WINDOW + w]);
        }
        MPI_Status statuses[2 * WINDOW];
        MPI_Waitall(2 * WINDOW, requests, statuses);
        turn = MPI_Wtime() - turn;
        if (turn > longest) longest = turn;
        for (int w = 0; w < WINDOW; w++) {
            uint32_t number = message + (uint32_t)w, words = 1 + number * 7919u % (number % 4 ? 20000u : WORDS_MAX);
            int got;
            MPI_Get_count(&statuses[w], MPI_UINT32_T, &got);
            if ((uint32_t)got != words) errors++;
            for (uint32_t i = 0; i < words && (int)i < got; i++) errors += in[w][i] != word(number, 1u - (uint32_t)rank, i);
        }
        message += WINDOW;
        if (rank == 0) go = until_goes_on(until, begin) && errors == 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    unsigned long long damaged = count_of("damaged_packets"), damaged_all = 0;
    MPI_Reduce(&damaged, &damaged_all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        fprintf(stderr, "%llu damaged packets\n", damaged_all);
        fprintf(stderr, "%u messages, longest turn %.3f s\n", message, longest);
        if (errors) printf("%d wrong words\n", errors);
        else printf("No Errors\n");
    }
    MPI_Finalize();
    return errors != 0;
}
