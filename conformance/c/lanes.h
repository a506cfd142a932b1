/* Shared by programs that let messages of several lengths go round the ranks: each rank sends to its right and receives from
 * its left, a message a lane. */
#ifndef AYATORI_LANES_H
#define AYATORI_LANES_H

#include "check.h"

static uint32_t **lanes_out, **lanes_in;

static uint32_t lane_mark(int rank, int lane, int round)
{
    return (uint32_t)(rank * 131 + lane * 17 + round);
}

/* Memory for lanes of these many words. */
static void lanes_make(const int *words, int lanes)
{
    lanes_out = malloc((size_t)lanes * sizeof *lanes_out);
    lanes_in = malloc((size_t)lanes * sizeof *lanes_in);
    for (int lane = 0; lane < lanes; lane++) {
        lanes_out[lane] = malloc((size_t)words[lane] * sizeof(uint32_t));
        lanes_in[lane] = malloc((size_t)words[lane] * sizeof(uint32_t));
    }
}

/* Begins a lane's receive and send. */
static void lane_start(int lane, int words, int round, MPI_Request *receive, MPI_Request *send)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < words; i++) lanes_out[lane][i] = lane_mark(check_rank, lane, round) + (uint32_t)i;
    OK(MPI_Irecv(lanes_in[lane], words, MPI_UINT32_T, left, lane, MPI_COMM_WORLD, receive));
    OK(MPI_Isend(lanes_out[lane], words, MPI_UINT32_T, right, lane, MPI_COMM_WORLD, send));
}

/* How many words of all lanes are not what the left rank sent. */
static int lanes_wrong(const int *words, int lanes, int round)
{
    int left = (check_rank + check_size - 1) % check_size, wrong = 0;
    for (int lane = 0; lane < lanes; lane++)
        for (int i = 0; i < words[lane]; i++)
            wrong += lanes_in[lane][i] != lane_mark(left, lane, round) + (uint32_t)i;
    return wrong;
}

#endif
