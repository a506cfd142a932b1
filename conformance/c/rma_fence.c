/* Fences: what was put, summed or read in an epoch is there after it, in memory of the program's and of the
 * library's, for short data and long, and for one who goes on at once with data of the other length. */
#include "check.h"

enum { BYTES = 128 * 1024, TURNS = 60 };

static char *memory, *mine;
static MPI_Win win;

/* Whose part of the next rank's memory is: nobody else puts there. */
static int next(void) { return (check_rank + 1) % check_size; }
static int previous(void) { return (check_rank + check_size - 1) % check_size; }

/* A short put; after the fence its origin reads all of the memory, and finds it there. */
static void short_then_long(int turn)
{
    char value = (char)(turn + check_rank);
    int at = (turn * 997) % BYTES;
    OK(MPI_Put(&value, 1, MPI_CHAR, next(), at, 1, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    CHECK(memory[at] == (char)(turn + previous()), "turn %d: %d is in memory", turn, memory[at]);
    memset(mine, 0, BYTES);
    OK(MPI_Get(mine, BYTES, MPI_CHAR, next(), 0, BYTES, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    CHECK(mine[at] == value, "turn %d: %d is read, and %d was put", turn, mine[at], value);
}

/* A long put, then a short one into the middle of it in the next epoch. */
static void long_then_short(int turn)
{
    char value = (char)(3 * turn + check_rank), other = (char)~value;
    memset(mine, value, BYTES);
    OK(MPI_Put(mine, BYTES, MPI_CHAR, next(), 0, BYTES, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&other, 1, MPI_CHAR, next(), BYTES / 2, 1, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    char expected = (char)(3 * turn + previous());
    CHECK(memory[0] == expected && memory[BYTES - 1] == expected, "turn %d: long put", turn);
    CHECK(memory[BYTES / 2] == (char)~expected, "turn %d: short put", turn);
    OK(MPI_Win_fence(0, win));
}

/* Epochs of locks behind a fence that ended short puts. */
static void fence_then_lock(int turn)
{
    char value = (char)(5 * turn + check_rank), read[2 * 16384] = {0};
    OK(MPI_Put(&value, 1, MPI_CHAR, next(), 16384, 1, MPI_CHAR, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, next(), 0, win));
    OK(MPI_Get(read, sizeof read, MPI_CHAR, next(), 0, sizeof read, MPI_CHAR, win));
    OK(MPI_Win_unlock(next(), win));
    CHECK(read[16384] == value, "turn %d: %d is read under a lock", turn, read[16384]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
}

/* Sums of all in one word, and what the others have summed before a fence. */
static void sums(int turn)
{
    int64_t one = 1, before = -1, *word = (int64_t *)memory;
    OK(MPI_Win_fence(0, win));
    *word = 0;
    OK(MPI_Win_fence(0, win));
    for (int rank = 0; rank < check_size; rank++)
        for (int i = 0; i <= turn % 3; i++)
            OK(MPI_Accumulate(&one, 1, MPI_INT64_T, rank, 0, 1, MPI_INT64_T, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    int64_t sum = (int64_t)check_size * (turn % 3 + 1);
    CHECK(*word == sum, "turn %d: the sum is %lld", turn, (long long)*word);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, next(), 0, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    CHECK(before == sum && *word == sum + 1, "turn %d: %lld was fetched", turn, (long long)before);
    OK(MPI_Win_fence(0, win));
}

static void epochs(void)
{
    OK(MPI_Win_fence(0, win));
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn % 7 != 3) short_then_long(turn);
        if (turn % 5 == 0) long_then_short(turn);
        if (turn % 11 == 0) fence_then_lock(turn);
        sums(turn);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

/* Plain stores and loads in memory that all map: those before a fence are seen after it, by all, and nobody
 * comes to the next epoch while another still reads. Barriers and broadcasts of the same processes come
 * between fences. */
static void loads_and_stores(MPI_Comm comm)
{
    enum { ROUNDS = 3000 };
    int rank, size;
    int *own;
    MPI_Win shared;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, comm, &own, &shared));
    int *of[64];
    for (int other = 0; other < size; other++) {
        MPI_Aint bytes;
        int unit;
        OK(MPI_Win_shared_query(shared, other, &bytes, &unit, &of[other]));
    }
    OK(MPI_Win_fence(0, shared));
    for (int round = 0; round < ROUNDS; round++) {
        own[0] = round + rank;
        own[15] = -round;
        OK(MPI_Win_fence(0, shared));
        for (int other = 0; other < size; other++)
            CHECK(of[other][0] == round + other && of[other][15] == -round, "round %d: %d and %d of rank %d",
                  round, of[other][0], of[other][15], other);
        if (round % 16 == 5) OK(MPI_Barrier(comm));
        if (round % 16 == 11) {
            int word = rank == round % size ? round : 0;
            OK(MPI_Bcast(&word, 1, MPI_INT, round % size, comm));
            CHECK(word == round, "round %d: %d was sent to all", round, word);
        }
        OK(MPI_Win_fence(0, shared));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, shared));
    OK(MPI_Win_free(&shared));
}

/* In a dynamic window the target alone knows what is attached: its refusal is the fence's error. */
static void refused(void)
{
    char value = 1;
    MPI_Win dynamic;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
    OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
    OK(MPI_Win_fence(0, dynamic));
    if (check_rank == 0) OK(MPI_Put(&value, 1, MPI_CHAR, next(), 64, 1, MPI_CHAR, dynamic));
    int error = MPI_Win_fence(0, dynamic), class = MPI_SUCCESS;
    if (error != MPI_SUCCESS) OK(MPI_Error_class(error, &class));
    int expected = check_rank == 0 ? MPI_ERR_RMA_RANGE : MPI_SUCCESS;
    CHECK(class == expected, "the fence's error is of class %d", class);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, dynamic));
    OK(MPI_Win_free(&dynamic));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    memory = check_alloc(BYTES);
    mine = check_alloc(BYTES);
    OK(MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    epochs();
    OK(MPI_Win_free(&win));
    free(memory);
    OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    epochs();
    OK(MPI_Win_free(&win));
    /* Among the processes of a host, and in pairs of them. */
    MPI_Comm host, pair;
    int rank;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    loads_and_stores(host);
    OK(MPI_Comm_rank(host, &rank));
    OK(MPI_Comm_split(host, rank / 2, 0, &pair));
    loads_and_stores(pair);
    OK(MPI_Comm_free(&pair));
    OK(MPI_Comm_free(&host));
    if (check_size > 1) refused();
    free(mine);
    return check_end();
}
