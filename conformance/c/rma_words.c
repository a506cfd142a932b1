/* Accumulates of one element beside those of many on the same memory, by all processes at once: each element
 * is changed whole, whichever way it is. Words that lie aligned and not, types with gaps, compare-and-swap,
 * and reads by MPI_NO_OP. */
#include "check.h"

enum { ROWS = 40, TURNS = 300, CELLS = 64, BYTES = 8 * CELLS + 8 };

static char *memory;
static MPI_Win win;

/* One of many elements at a time, and one, from `first` bytes on. */
#define SUMS(T, type, name) \
    static void sums_##name(MPI_Aint first, T step) \
    { \
        T many[ROWS], one = step, old; \
        MPI_Datatype every_second; \
        OK(MPI_Type_vector(ROWS / 2, 1, 2, type, &every_second)); \
        OK(MPI_Type_commit(&every_second)); \
        for (int i = 0; i < ROWS; i++) many[i] = step; \
        for (int turn = 0; turn < TURNS; turn++) { \
            MPI_Aint at = first + (MPI_Aint)(turn % ROWS) * (MPI_Aint)sizeof(T); \
            OK(MPI_Fetch_and_op(&one, &old, type, 0, at, MPI_SUM, win)); \
            if (turn % 3 == 0) OK(MPI_Accumulate(many, ROWS, type, 0, first, ROWS, type, MPI_SUM, win)); \
            if (turn % 3 == 1) \
                OK(MPI_Accumulate(many, ROWS / 2, type, 0, first, 1, every_second, MPI_SUM, win)); \
            if (turn % 3 == 2) \
                OK(MPI_Accumulate(&one, 1, type, 0, at, 1, type, MPI_SUM, win)); \
            if (turn % 50 == 0) OK(MPI_Win_flush(0, win)); \
        } \
        OK(MPI_Win_flush(0, win)); \
        OK(MPI_Barrier(MPI_COMM_WORLD)); \
        for (int i = 0; i < ROWS; i++) { \
            int turns = 0; \
            for (int turn = i; turn < TURNS; turn += ROWS) turns += turn % 3 == 2 ? 2 : 1; \
            turns += TURNS / 3 + (i % 2 == 0 ? TURNS / 3 : 0); \
            T now = 0, want = (T)(step * (T)(turns * check_size)); \
            OK(MPI_Fetch_and_op(NULL, &now, type, 0, first + i * (MPI_Aint)sizeof(T), MPI_NO_OP, win)); \
            OK(MPI_Win_flush(0, win)); \
            CHECK(now == want, #type " at %d, element %d: %g, not %g", (int)first, i, (double)now, \
                  (double)want); \
        } \
        OK(MPI_Barrier(MPI_COMM_WORLD)); \
        if (check_rank == 0) { \
            T zero[ROWS] = {0}; \
            OK(MPI_Accumulate(zero, ROWS, type, 0, first, ROWS, type, MPI_REPLACE, win)); \
            OK(MPI_Win_flush(0, win)); \
        } \
        OK(MPI_Barrier(MPI_COMM_WORLD)); \
        OK(MPI_Type_free(&every_second)); \
    }

SUMS(int32_t, MPI_INT32_T, i32)
SUMS(uint64_t, MPI_UINT64_T, u64)
SUMS(float, MPI_FLOAT, float)
SUMS(double, MPI_DOUBLE, double)

/* Counts by compare-and-swap, beside sums of others on its neighbour. */
static void swaps(MPI_Aint at)
{
    int64_t seen = 0, held, next, one = 1, old;
    for (int turn = 0; turn < TURNS; turn++) {
        for (;;) {
            next = seen + 1;
            OK(MPI_Compare_and_swap(&next, &seen, &held, MPI_INT64_T, 0, at, win));
            OK(MPI_Win_flush(0, win));
            if (held == seen) break;
            seen = held;
        }
        seen = next;
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, at + 8, MPI_SUM, win));
    }
    OK(MPI_Win_flush(0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int64_t now[2], want = (int64_t)TURNS * check_size;
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, now, 2, MPI_INT64_T, 0, at, 2, MPI_INT64_T, MPI_NO_OP, win));
    OK(MPI_Win_flush(0, win));
    CHECK(now[0] == want && now[1] == want, "%lld by swaps, %lld by sums", (long long)now[0],
          (long long)now[1]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What is wrong is told, and changes nothing. */
static void errors(void)
{
    int64_t value = 1, result = -1;
    double number = 1;
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_Fetch_and_op(&number, &result, MPI_DOUBLE, 0, 0, MPI_BAND, win), MPI_ERR_OP);
    FAILS(MPI_Compare_and_swap(&number, &number, &result, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
    FAILS(MPI_Compare_and_swap(&value, &value, &result, MPI_INT64_T, 0, BYTES, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Compare_and_swap(&value, &value, &result, MPI_INT64_T, check_size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Fetch_and_op(&value, &result, MPI_INT64_T, 0, -8, MPI_SUM, win), MPI_ERR_DISP);
    OK(MPI_Compare_and_swap(&value, &value, &result, MPI_INT64_T, MPI_PROC_NULL, 0, win));
    OK(MPI_Fetch_and_op(&value, &result, MPI_INT64_T, MPI_PROC_NULL, 0, MPI_SUM, win));
    CHECK(result == -1, "%lld", (long long)result);
}

static void all(void)
{
    memset(memory, 0, BYTES);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (MPI_Aint first = 0; first <= 8; first += 4) {
        sums_i32(first, 3);
        sums_u64(first, 5);
        sums_float(first, 1);
        sums_double(first, 0.5);
    }
    swaps(8 * ROWS);
    errors();
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    memory = check_alloc(BYTES);
    OK(MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    all();
    free(memory);
    OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    all();
    return check_end();
}
