/* A long message is delivered while its sender, or its receiver, computes for long without a call of MPI: by default
 * settings, well before the end. (How fast, `bench/overlap.c` measures.) */
#include "check.h"

#include <time.h>

#define BYTES (4 << 20)
#define COMPUTE_S 0.1
#define TURNS 5

static void compute(void)
{
    double until = MPI_Wtime() + COMPUTE_S;
    while (MPI_Wtime() < until) continue;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
    char *buffer = malloc(BYTES);
    for (int sender_is_busy = 0; sender_is_busy < 2 && check_rank < 2; sender_is_busy++) {
        double best = 1e9;
        for (int turn = 0; turn < TURNS; turn++) {
            MPI_Request request;
            char ready = 0;
            double begin, took = 0;
            if (check_rank == 0) {
                pattern_fill(buffer, BYTES, (uint32_t)turn);
                OK(MPI_Recv(&ready, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                begin = MPI_Wtime();
                OK(MPI_Issend(buffer, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
                if (sender_is_busy) compute();
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                if (!sender_is_busy) took = MPI_Wtime() - begin;
            } else {
                memset(buffer, 0, BYTES);
                OK(MPI_Irecv(buffer, BYTES, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request));
                OK(MPI_Send(&ready, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD));
                begin = MPI_Wtime();
                if (!sender_is_busy) compute();
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                if (sender_is_busy) took = MPI_Wtime() - begin;
                CHECK(pattern_wrong(buffer, BYTES, (uint32_t)turn) < 0, "wrong data");
            }
            if (took > 0 && took < best) best = took;
        }
        if (check_rank == sender_is_busy)
            CHECK(best < COMPUTE_S / 2, "%s busy: delivered after %.1f ms at best", sender_is_busy ? "sender" : "receiver",
                  best * 1e3);
    }
    free(buffer);
    return check_end();
}
