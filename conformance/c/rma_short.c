/* Short one-sided operations one after the other, alone and several to a flush, in memory of the program and
 * of the library: integers of each length under each operation, reads with requests, locks by turns, epochs
 * of groups behind single flushes. */
#include "check.h"

enum { WORDS = 64, TURNS = 200 };

static int64_t *memory;
static MPI_Win win;

/* Each process has words of its own in each window. */
static int word_of(int rank)
{
    return 8 + rank % 40;
}

static int64_t read_word(int target, int word)
{
    int64_t value = -1;
    MPI_Request request;
    OK(MPI_Rget(&value, 1, MPI_INT64_T, target, word, 1, MPI_INT64_T, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return value;
}

/* One, two or three puts to a flush: what was put is there after it. */
static void puts_and_flushes(int to)
{
    int word = word_of(check_rank);
    OK(MPI_Win_lock_all(0, win));
    for (int turn = 0; turn < TURNS; turn++) {
        int count = turn / 5 % 3 + 1;
        int64_t value = 0, back = -1;
        for (int i = 0; i < count; i++) {
            value = 10 * turn + i;
            int64_t copy = value;
            OK(MPI_Accumulate(&copy, 1, MPI_INT64_T, to, word, 1, MPI_INT64_T, MPI_REPLACE, win));
            copy = -2; /* the call has returned: it may be changed */
        }
        OK(MPI_Win_flush(to, win));
        OK(MPI_Get(&back, 1, MPI_INT64_T, to, word, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush_local(to, win));
        CHECK(back == value, "turn %d: %lld, not %lld", turn, (long long)back, (long long)value);
        value = -turn;
        OK(MPI_Put(&value, 1, MPI_INT64_T, to, word, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush(to, win));
        CHECK(read_word(to, word) == -turn, "turn %d: what was put is not there", turn);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

#define EACH(T, type, size_name) \
    static void each_##size_name(int to) \
    { \
        struct { MPI_Op op; T want; } cases[] = { \
            {MPI_SUM, (T)(7 - 9)}, {MPI_PROD, (T)(7 * (T)-9)}, {MPI_MIN, 7 < (T)-9 ? 7 : (T)-9}, \
            {MPI_MAX, 7 > (T)-9 ? 7 : (T)-9}, {MPI_BAND, 7 & (T)-9}, {MPI_BOR, 7 | (T)-9}, \
            {MPI_BXOR, 7 ^ (T)-9}, \
            {MPI_LAND, 1}, {MPI_REPLACE, (T)-9}, {MPI_NO_OP, 7}}; \
        int disp = word_of(check_rank); \
        OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win)); \
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { \
            T first = 7, operand = (T)-9, old = 0, now = 0; \
            OK(MPI_Accumulate(&first, 1, type, to, disp, 1, type, MPI_REPLACE, win)); \
            OK(MPI_Fetch_and_op(&operand, &old, type, to, disp, cases[i].op, win)); \
            OK(MPI_Fetch_and_op(NULL, &now, type, to, disp, MPI_NO_OP, win)); \
            OK(MPI_Win_flush(to, win)); \
            CHECK(old == first && now == cases[i].want, #type ", case %d: from %lld to %lld", (int)i, \
                  (long long)old, (long long)now); \
        } \
        OK(MPI_Win_unlock(to, win)); \
    }

EACH(int8_t, MPI_INT8_T, i8)
EACH(int16_t, MPI_INT16_T, i16)
EACH(int32_t, MPI_INT32_T, i32)
EACH(int64_t, MPI_INT64_T, i64)
EACH(uint32_t, MPI_UINT32_T, u32)
EACH(uint64_t, MPI_UINT64_T, u64)

/* All count up two words of rank 0: by an operation, and by a read and a write under the lock. */
static void counters(void)
{
    int64_t one = 1, old;
    for (int turn = 0; turn < TURNS; turn++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Get(&old, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush(0, win));
        old++;
        OK(MPI_Put(&old, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win));
        OK(MPI_Win_unlock(0, win));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 1, MPI_SUM, win));
        OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    int64_t want = (int64_t)TURNS * check_size;
    CHECK(read_word(0, 0) == want, "under the lock: %lld", (long long)read_word(0, 0));
    CHECK(read_word(0, 1) == want, "by an operation: %lld", (long long)read_word(0, 1));
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Fences and groups of which each epoch has one put, behind flushes that had one. */
static void epochs(int to, int from)
{
    MPI_Group all, target, origin;
    int64_t value;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, 1, &to, &target));
    OK(MPI_Group_incl(all, 1, &from, &origin));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    for (int turn = 0; turn < 20; turn++) {
        value = 1000 * turn + check_rank;
        OK(MPI_Put(&value, 1, MPI_INT64_T, to, 2, 1, MPI_INT64_T, win));
        OK(MPI_Win_fence(0, win));
        CHECK(memory[2] == 1000 * turn + from, "fence %d: %lld", turn, (long long)memory[2]);
        OK(MPI_Win_fence(0, win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int turn = 0; turn < 20; turn++) {
        value = -1000 * turn - check_rank;
        OK(MPI_Win_post(origin, 0, win));
        OK(MPI_Win_start(target, 0, win));
        OK(MPI_Put(&value, 1, MPI_INT64_T, to, 3, 1, MPI_INT64_T, win));
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
        CHECK(memory[3] == -1000 * turn - from, "epoch %d: %lld", turn, (long long)memory[3]);
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&target));
    OK(MPI_Group_free(&origin));
}

/* What is wrong is told by the call, and what is right works after it. */
static void errors(int to)
{
    int64_t value = 5;
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_Put(&value, 1, MPI_INT64_T, to, 4, 1, MPI_INT64_T, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(77, to, 0, win), MPI_ERR_LOCKTYPE);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_unlock(to, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Put(&value, 1, MPI_INT64_T, to, WORDS, 1, MPI_INT64_T, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get(&value, 1, MPI_INT64_T, to, WORDS, 1, MPI_INT64_T, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Fetch_and_op(&value, &value, MPI_INT64_T, to, WORDS, MPI_SUM, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Accumulate(&value, 1, MPI_FLOAT_INT, to, 0, 1, MPI_FLOAT_INT, MPI_SUM, win), MPI_ERR_OP);
    FAILS(MPI_Fetch_and_op(&value, &value, MPI_BYTE, to, 0, MPI_SUM, win), MPI_ERR_OP);
    OK(MPI_Win_unlock(to, win));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, MPI_MODE_NOCHECK, win));
    OK(MPI_Put(&value, 1, MPI_INT64_T, check_rank, 4, 1, MPI_INT64_T, win));
    OK(MPI_Win_unlock(check_rank, win));
    CHECK(memory[4] == 5, "%lld", (long long)memory[4]);
}

static void all(void)
{
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    memset(memory, 0, WORDS * sizeof *memory);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    puts_and_flushes(to);
    each_i8(to), each_i16(to), each_i32(to), each_i64(to), each_u32(to), each_u64(to);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    counters();
    epochs(to, from);
    errors(to);
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int bytes = WORDS * (int)sizeof *memory, unit = sizeof *memory;
    memory = check_alloc((size_t)bytes);
    OK(MPI_Win_create(memory, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    all();
    free(memory);
    OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    all();
    return check_end();
}
