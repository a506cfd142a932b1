/* Many messages nobody waits for yet: no loss, no overrun, no deadlock; memory of senders is theirs again. */
#include "check.h"

#define SMALL 5000
#define LARGE 20
#define LARGE_BYTES 200000

/* All others flood rank 0 with small messages before it receives the first; then a large one each. */
static void flood(void)
{
    if (check_rank == 0) {
        char *in = check_alloc(LARGE_BYTES);
        int flag;
        /* Let them pile up; progress is made, nothing received. */
        for (int i = 0; i < 2000; i++) OK(MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        for (int source = check_size - 1; source > 0; source--) {
            for (int i = 0; i < SMALL; i++) {
                int value = -1;
                OK(MPI_Recv(&value, 1, MPI_INT, source, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK(value == source * SMALL + i, "message %d of rank %d is %d", i, source, value);
            }
            OK(MPI_Recv(in, LARGE_BYTES, MPI_BYTE, source, 32, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK(pattern_wrong(in, LARGE_BYTES, (uint32_t)source) < 0, "wrong data of rank %d", source);
        }
        free(in);
    } else {
        char *out = check_alloc(LARGE_BYTES);
        for (int i = 0; i < SMALL; i++) {
            int value = check_rank * SMALL + i;
            OK(MPI_Send(&value, 1, MPI_INT, 0, 31, MPI_COMM_WORLD));
        }
        pattern_fill(out, LARGE_BYTES, (uint32_t)check_rank);
        OK(MPI_Send(out, LARGE_BYTES, MPI_BYTE, 0, 32, MPI_COMM_WORLD));
        free(out);
    }
}

/* Everybody to everybody, many large ones in flight, received in the reverse order. */
static void all_at_once(void)
{
    int count = LARGE * check_size;
    MPI_Request *requests = check_alloc(sizeof *requests * 2 * (size_t)count);
    char *out = check_alloc((size_t)count * 10000), *in = check_alloc((size_t)count * 10000);
    for (int peer = 0; peer < check_size; peer++)
        for (int i = 0; i < LARGE; i++) {
            int k = peer * LARGE + i;
            pattern_fill(out + (size_t)k * 10000, 10000, (uint32_t)(check_rank * 1000 + peer * 50 + i));
            OK(MPI_Isend(out + (size_t)k * 10000, 10000, MPI_BYTE, peer, 40 + i, MPI_COMM_WORLD, &requests[k]));
        }
    for (int k = count - 1; k >= 0; k--)
        OK(MPI_Irecv(in + (size_t)k * 10000, 10000, MPI_BYTE, k / LARGE, 40 + k % LARGE, MPI_COMM_WORLD,
                     &requests[count + k]));
    OK(MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < count; k++) {
        uint32_t seed = (uint32_t)(k / LARGE * 1000 + check_rank * 50 + k % LARGE);
        CHECK(pattern_wrong(in + (size_t)k * 10000, 10000, seed) < 0, "wrong data of rank %d, message %d", k / LARGE,
              k % LARGE);
    }
    free(requests);
    free(out);
    free(in);
}

/* Short synchronous ping-pongs while a large message is under way. */
static void small_beside_large(void)
{
    int other = check_rank ^ 1;
    if (other >= check_size) return;
    size_t bytes = 8u << 20;
    char *out = check_alloc(bytes), *in = check_alloc(bytes);
    MPI_Request large[2];
    pattern_fill(out, bytes, (uint32_t)check_rank);
    OK(MPI_Irecv(in, (int)bytes, MPI_BYTE, other, 70, MPI_COMM_WORLD, &large[0]));
    OK(MPI_Isend(out, (int)bytes, MPI_BYTE, other, 70, MPI_COMM_WORLD, &large[1]));
    for (int i = 0; i < 100; i++) {
        int ping = i, pong = -1;
        OK(MPI_Sendrecv(&ping, 1, MPI_INT, other, 71, &pong, 1, MPI_INT, other, 71, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(pong == i, "round %d brought %d", i, pong);
    }
    OK(MPI_Waitall(2, large, MPI_STATUSES_IGNORE));
    long wrong = pattern_wrong(in, bytes, (uint32_t)other);
    CHECK(wrong < 0, "byte %ld of the large message is wrong", wrong);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    flood();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    all_at_once();
    small_beside_large();
    return check_end();
}
