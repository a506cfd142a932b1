/* A long message is delivered while its sender, or its receiver, computes without a call of MPI, by default settings: the
 * rank that computes goes on until the other one says, outside of MPI, that its side of the message is complete. (How fast,
 * `bench/overlap.c` measures.) */
#include "aside.h"

#define BYTES (4 << 20)
#define TURNS 3

/* One message from rank 0 to rank 1, of which the sender or the receiver computes. `number` counts messages from 1. */
static void deliver(char *buffer, int sender_computes, int number)
{
    int computes = check_rank == (sender_computes ? 0 : 1);
    MPI_Request request;
    char ready = 0;
    if (check_rank == 0) {
        pattern_fill(buffer, BYTES, (uint32_t)number);
        OK(MPI_Recv(&ready, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Issend(buffer, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
    } else {
        memset(buffer, 0, BYTES);
        OK(MPI_Irecv(buffer, BYTES, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Send(&ready, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD));
    }
    if (computes)
        CHECK(aside_compute_until(number), "message %d is not delivered while the %s computes", number,
              sender_computes ? "sender" : "receiver");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (!computes) *aside_word = number;
    if (check_rank == 1) CHECK(pattern_wrong(buffer, BYTES, (uint32_t)number) < 0, "wrong data");
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
    if (!aside_open()) {
        if (check_rank == 0) printf("Skipped: the ranks share no memory outside of MPI\n");
        MPI_Finalize();
        return 0;
    }
    char *buffer = check_alloc(BYTES);
    for (int number = 1; number <= 2 * TURNS && check_rank < 2 && !check_errors; number++)
        deliver(buffer, number <= TURNS, number);
    free(buffer);
    return check_end();
}
