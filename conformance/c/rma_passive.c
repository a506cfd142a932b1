/* A target that makes no call: locks, accumulates, short and long puts and gets go on while it computes, where the library
 * makes progress by itself. In mode inline it looks in now and then. */
#include "check.h"

#include <time.h>

enum { WORDS = 50000 };

/* A window of words: 0 counts, 1 says that the others are done, the rest is written and read. */
static uint64_t *memory;

static void work(MPI_Win win)
{
    uint64_t one = 1, old = 0, *out = check_alloc(WORDS * 8), *in = check_alloc(WORDS * 8);
    for (int round = 0; round < 20; round++) {
        int words = round % 4 == 3 ? WORDS - 2 : 10 + round;
        for (int i = 0; i < words; i++) out[i] = (uint64_t)check_rank << 32 | (uint64_t)(round * 1000 + i);
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Put(out, words, MPI_UINT64_T, 0, 2, words, MPI_UINT64_T, win));
        OK(MPI_Win_flush(0, win));
        OK(MPI_Get(in, words, MPI_UINT64_T, 0, 2, words, MPI_UINT64_T, win));
        OK(MPI_Win_unlock(0, win));
        CHECK(memcmp(in, out, (size_t)words * 8) == 0, "round %d: what was put is not what was got", round);
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, 0, 0, MPI_SUM, win));
        OK(MPI_Win_unlock(0, win));
        if (old == (uint64_t)(check_size - 1) * 20 - 1) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            OK(MPI_Accumulate(&one, 1, MPI_UINT64_T, 0, 1, 1, MPI_UINT64_T, MPI_REPLACE, win));
            OK(MPI_Win_unlock(0, win));
        }
    }
    free(out);
    free(in);
}

static void target(MPI_Win win)
{
    const char *mode = getenv("AYATORI_PROGRESS");
    int is_inline = mode && strcmp(mode, "inline") == 0, flag;
    volatile uint64_t *done = memory + 1;
    struct timespec nap = {0, 1000000};
    while (!*done) {
        if (is_inline) OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        nanosleep(&nap, NULL);
    }
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    CHECK(memory[0] == (uint64_t)(check_size - 1) * 20, "%llu", (unsigned long long)memory[0]);
    OK(MPI_Win_unlock(0, win));
}

/* Letters of many kilobytes arrive while the target waits in a barrier: it goes on with them. */
static void in_barrier(MPI_Win win)
{
    enum { COUNT = 1000, LETTERS = 300 };
    static double ones[COUNT];
    int to = (check_rank + 1) % check_size;
    double *sums = (double *)memory;
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    for (int i = 0; i < WORDS; i++) sums[i] = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
        for (int i = 0; i < LETTERS; i++)
            OK(MPI_Accumulate(ones, COUNT, MPI_DOUBLE, to, (i % 50) * COUNT, COUNT, MPI_DOUBLE, MPI_SUM, win));
        OK(MPI_Win_unlock(to, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    for (int i = 0; i < WORDS; i++)
        if (sums[i] != 3.0 * LETTERS / 50) {
            CHECK(0, "sum %d is %g", i, sums[i]);
            break;
        }
    OK(MPI_Win_unlock(check_rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
    for (int is_allocated = 0; is_allocated < 2; is_allocated++) {
        MPI_Win win;
        if (is_allocated) OK(MPI_Win_allocate(WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
        else {
            memory = check_alloc(WORDS * 8);
            OK(MPI_Win_create(memory, WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) target(win);
        else work(win);
        in_barrier(win);
        OK(MPI_Win_free(&win));
        if (!is_allocated) free(memory);
    }
    return check_end();
}
