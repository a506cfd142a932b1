/* Put, get and accumulates with every kind of window and of synchronization: values against an own computation. */
#include "check.h"

enum { FENCE, GROUPS, LOCK, LOCK_ALL, WAYS };
enum { CREATE, ALLOCATE, SHARED, DYNAMIC, FLAVORS };

enum { INTS = 70000 };

struct window {
    MPI_Win win;
    int *memory;
    MPI_Aint *bases; /* of a dynamic window's members */
    int flavor;
    MPI_Comm comm;
};

static int size_of_comm, rank_in_comm;

static struct window make(int flavor, MPI_Comm comm)
{
    struct window w = {MPI_WIN_NULL, NULL, NULL, flavor, comm};
    const MPI_Aint bytes = INTS * sizeof(int);
    MPI_Comm_size(comm, &size_of_comm);
    MPI_Comm_rank(comm, &rank_in_comm);
    switch (flavor) {
    case CREATE:
        w.memory = check_alloc(bytes);
        OK(MPI_Win_create(w.memory, bytes, sizeof(int), MPI_INFO_NULL, comm, &w.win));
        break;
    case ALLOCATE: OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, comm, &w.memory, &w.win)); break;
    case SHARED: OK(MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, comm, &w.memory, &w.win)); break;
    default:
        w.memory = check_alloc(bytes);
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w.win));
        OK(MPI_Win_attach(w.win, w.memory, bytes));
        w.bases = check_alloc((size_t)size_of_comm * sizeof *w.bases);
        MPI_Aint own;
        OK(MPI_Get_address(w.memory, &own));
        OK(MPI_Allgather(&own, 1, MPI_AINT, w.bases, 1, MPI_AINT, comm));
    }
    return w;
}

static void end(struct window *w)
{
    if (w->flavor == DYNAMIC) OK(MPI_Win_detach(w->win, w->memory));
    OK(MPI_Win_free(&w->win));
    CHECK(w->win == MPI_WIN_NULL, "the handle is not null");
    if (w->flavor == CREATE || w->flavor == DYNAMIC) free(w->memory);
    free(w->bases);
}

static MPI_Aint at(const struct window *w, int rank, MPI_Aint index)
{
    return w->flavor == DYNAMIC ? w->bases[rank] + index * (MPI_Aint)sizeof(int) : index;
}

/* The group of all members, for post and start. */
static MPI_Group everybody(MPI_Win win)
{
    MPI_Group group;
    OK(MPI_Win_get_group(win, &group));
    return group;
}

static void begin(struct window *w, int way)
{
    MPI_Group group;
    switch (way) {
    case FENCE: OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win)); break;
    case GROUPS:
        group = everybody(w->win);
        OK(MPI_Win_post(group, 0, w->win));
        OK(MPI_Win_start(group, 0, w->win));
        OK(MPI_Group_free(&group));
        break;
    case LOCK_ALL:
        OK(MPI_Barrier(w->comm));
        OK(MPI_Win_lock_all(0, w->win));
        break;
    default: OK(MPI_Barrier(w->comm));
    }
}

static void finish(struct window *w, int way)
{
    int flag = 0;
    switch (way) {
    case FENCE: OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win)); break;
    case GROUPS:
        OK(MPI_Win_complete(w->win));
        if (rank_in_comm % 2) OK(MPI_Win_wait(w->win));
        else
            while (!flag) OK(MPI_Win_test(w->win, &flag));
        break;
    case LOCK_ALL:
        OK(MPI_Win_unlock_all(w->win));
        OK(MPI_Barrier(w->comm));
        break;
    default: OK(MPI_Barrier(w->comm));
    }
}

#define ACCESS(w, way, rank, call) \
    do { \
        if ((way) == LOCK) OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, (w)->win)); \
        OK(call); \
        if ((way) == LOCK) OK(MPI_Win_unlock(rank, (w)->win)); \
    } while (0)

/* Every process writes a run of ints into each other one's memory, by its rank. */
static void puts_and_gets(struct window *w, int way, int count)
{
    const int n = size_of_comm, me = rank_in_comm;
    int *out = check_alloc((size_t)count * sizeof(int)), *in = check_alloc((size_t)count * sizeof(int));
    memset(w->memory, 0, INTS * sizeof(int));
    begin(w, way);
    for (int i = 0; i < count; i++) out[i] = me * 1000003 + i;
    for (int to = 0; to < n; to++)
        ACCESS(w, way, to, MPI_Put(out, count, MPI_INT, to, at(w, to, (MPI_Aint)me * count), count, MPI_INT, w->win));
    finish(w, way);
    for (int from = 0; from < n; from++)
        for (int i = 0; i < count; i++)
            if (w->memory[from * count + i] != from * 1000003 + i) {
                CHECK(0, "put: flavor %d way %d count %d: int %d of %d is %d", w->flavor, way, count, i, from,
                      w->memory[from * count + i]);
                goto next;
            }
next:
    begin(w, way);
    int of = (me + 1) % n, whose = (me + n - 1) % n;
    ACCESS(w, way, of, MPI_Get(in, count, MPI_INT, of, at(w, of, (MPI_Aint)whose * count), count, MPI_INT, w->win));
    finish(w, way);
    for (int i = 0; i < count; i++)
        if (in[i] != whose * 1000003 + i) {
            CHECK(0, "get: flavor %d way %d count %d: int %d is %d", w->flavor, way, count, i, in[i]);
            break;
        }
    free(out);
    free(in);
}

/* Columns of a matrix at the target, from columns of another at the origin. */
static void strided(struct window *w, int way)
{
    enum { ROWS = 37, COLUMNS = 12 };
    const int n = size_of_comm, me = rank_in_comm;
    int matrix[ROWS][3];
    MPI_Datatype here, there;
    OK(MPI_Type_vector(ROWS, 1, 3, MPI_INT, &here));
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &there));
    OK(MPI_Type_commit(&here));
    OK(MPI_Type_commit(&there));
    memset(w->memory, 0, INTS * sizeof(int));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 3; j++) matrix[i][j] = me * 100000 + i * 10 + j;
    int to = (me + 1) % n, from = (me + n - 1) % n;
    begin(w, way);
    ACCESS(w, way, to, MPI_Put(&matrix[0][1], 1, here, to, at(w, to, 5), 1, there, w->win));
    finish(w, way);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int expected = i % COLUMNS == 5 ? from * 100000 + i / COLUMNS * 10 + 1 : 0;
        CHECK(w->memory[i] == expected, "strided put: flavor %d way %d: int %d is %d", w->flavor, way, i, w->memory[i]);
    }
    begin(w, way);
    ACCESS(w, way, to, MPI_Get(&matrix[0][2], 1, here, to, at(w, to, 5), 1, there, w->win));
    finish(w, way);
    for (int i = 0; i < ROWS; i++)
        CHECK(matrix[i][2] == me * 100000 + i * 10 + 1, "strided get: row %d is %d", i, matrix[i][2]);
    begin(w, way);
    ACCESS(w, way, to, MPI_Accumulate(&matrix[0][0], 1, here, to, at(w, to, 5), 1, there, MPI_SUM, w->win));
    finish(w, way);
    for (int i = 0; i < ROWS; i++) {
        int expected = from * 200000 + i * 20 + 1;
        CHECK(w->memory[i * COLUMNS + 5] == expected, "strided sum: row %d is %d", i, w->memory[i * COLUMNS + 5]);
    }
    MPI_Type_free(&here);
    MPI_Type_free(&there);
}

/* All add into the memory of rank 0 and count there. */
static void accumulates(struct window *w, int way)
{
    const int n = size_of_comm, me = rank_in_comm, count = 5000, rounds = 3;
    int *out = check_alloc((size_t)count * sizeof(int)), one = 1, old = -1, sum = 0;
    memset(w->memory, 0, INTS * sizeof(int));
    for (int i = 0; i < count; i++) out[i] = me + i;
    begin(w, way);
    for (int k = 0; k < rounds; k++) {
        ACCESS(w, way, 0, MPI_Accumulate(out, count, MPI_INT, 0, at(w, 0, 10), count, MPI_INT, MPI_SUM, w->win));
        ACCESS(w, way, 0, MPI_Accumulate(&me, 1, MPI_INT, 0, at(w, 0, 1), 1, MPI_INT, MPI_MAX, w->win));
    }
    finish(w, way);
    if (me == 0) {
        for (int i = 0; i < count; i++)
            CHECK(w->memory[10 + i] == rounds * (n * (n - 1) / 2 + n * i), "sum: flavor %d way %d: int %d is %d",
                  w->flavor, way, i, w->memory[10 + i]);
        CHECK(w->memory[1] == n - 1, "max is %d", w->memory[1]);
    }
    begin(w, way);
    ACCESS(w, way, 0, MPI_Fetch_and_op(&one, &old, MPI_INT, 0, at(w, 0, 0), MPI_SUM, w->win));
    finish(w, way);
    OK(MPI_Allreduce(&old, &sum, 1, MPI_INT, MPI_SUM, w->comm));
    CHECK(sum == n * (n - 1) / 2, "the numbers fetched add up to %d", sum);
    /* Who finds 0 in place 2 leaves its number. */
    int compare = 0, origin = me + 1, found = -1, winners = 0;
    begin(w, way);
    ACCESS(w, way, 0, MPI_Compare_and_swap(&origin, &compare, &found, MPI_INT, 0, at(w, 0, 2), w->win));
    finish(w, way);
    int is_winner = found == 0;
    OK(MPI_Allreduce(&is_winner, &winners, 1, MPI_INT, MPI_SUM, w->comm));
    CHECK(winners == 1, "%d winners", winners);
    /* A read that is atomic, and an exchange. */
    int *seen = check_alloc((size_t)count * sizeof(int));
    begin(w, way);
    ACCESS(w, way, 0,
           MPI_Get_accumulate(NULL, 0, MPI_INT, seen, count, MPI_INT, 0, at(w, 0, 10), count, MPI_INT, MPI_NO_OP, w->win));
    finish(w, way);
    for (int i = 0; i < count; i++)
        CHECK(seen[i] == rounds * (n * (n - 1) / 2 + n * i), "no-op: int %d is %d", i, seen[i]);
    begin(w, way);
    ACCESS(w, way, 0, MPI_Get_accumulate(&origin, 1, MPI_INT, &found, 1, MPI_INT, 0, at(w, 0, 3 + me % 7), 1, MPI_INT,
                                         MPI_REPLACE, w->win));
    finish(w, way);
    if (me == 0 && n <= 7)
        for (int i = 0; i < n; i++) CHECK(w->memory[3 + i] == i + 1, "replace: %d is %d", i, w->memory[3 + i]);
    free(seen);
    free(out);
}

/* An exclusive lock around a read and a write. */
static void exclusive(struct window *w)
{
    const int rounds = 20;
    if (rank_in_comm == 0) w->memory[0] = 0;
    OK(MPI_Barrier(w->comm));
    for (int i = 0; i < rounds; i++) {
        int value = -1;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
        OK(MPI_Get(&value, 1, MPI_INT, 0, at(w, 0, 0), 1, MPI_INT, w->win));
        OK(MPI_Win_flush(0, w->win));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT, 0, at(w, 0, 0), 1, MPI_INT, w->win));
        OK(MPI_Win_unlock(0, w->win));
    }
    OK(MPI_Barrier(w->comm));
    if (rank_in_comm == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
        CHECK(w->memory[0] == rounds * size_of_comm, "flavor %d: %d of %d updates", w->flavor, w->memory[0],
              rounds * size_of_comm);
        OK(MPI_Win_unlock(0, w->win));
    }
    OK(MPI_Barrier(w->comm));
}

/* Operations with requests, and flushes of all kinds. */
static void requests(struct window *w)
{
    enum { COUNT = 4000 };
    const int n = size_of_comm, me = rank_in_comm, to = (me + 1) % n, from = (me + n - 1) % n;
    static int out[COUNT], in[COUNT], old[COUNT];
    MPI_Request r[2];
    memset(w->memory, 0, INTS * sizeof(int));
    for (int i = 0; i < COUNT; i++) out[i] = me * 7 + i;
    OK(MPI_Barrier(w->comm));
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win));
    OK(MPI_Rput(out, COUNT, MPI_INT, to, at(w, to, 0), COUNT, MPI_INT, w->win, &r[0]));
    OK(MPI_Rput_c(out, COUNT, MPI_INT, to, at(w, to, COUNT), COUNT, MPI_INT, w->win, &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    OK(MPI_Win_flush_local(to, w->win));
    OK(MPI_Win_flush(to, w->win));
    OK(MPI_Raccumulate(out, COUNT, MPI_INT, to, at(w, to, 0), COUNT, MPI_INT, MPI_SUM, w->win, &r[0]));
    OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_local_all(w->win));
    OK(MPI_Win_flush_all(w->win));
    OK(MPI_Barrier(w->comm));
    OK(MPI_Win_sync(w->win));
    for (int i = 0; i < COUNT; i++)
        CHECK(w->memory[i] == 2 * (from * 7 + i) && w->memory[COUNT + i] == from * 7 + i, "requests: int %d", i);
    OK(MPI_Barrier(w->comm));
    OK(MPI_Rget(in, COUNT, MPI_INT, to, at(w, to, 0), COUNT, MPI_INT, w->win, &r[0]));
    OK(MPI_Rget_accumulate(out, COUNT, MPI_INT, old, COUNT, MPI_INT, to, at(w, to, COUNT), COUNT, MPI_INT, MPI_SUM,
                           w->win, &r[1]));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++)
        CHECK(in[i] == 2 * (me * 7 + i) && old[i] == me * 7 + i, "rget: int %d: %d, %d", i, in[i], old[i]);
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(w->comm));
}

/* A pair with padding, and a type that is no number. */
static void other_types(struct window *w)
{
    struct { double value; int index; } mine = {rank_in_comm, rank_in_comm}, result = {-1, -1};
    if (rank_in_comm == 0) memset(w->memory, 0, 64 * sizeof(int));
    OK(MPI_Win_fence(0, w->win));
    OK(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, at(w, 0, 0), 1, MPI_DOUBLE_INT, MPI_MAXLOC, w->win));
    OK(MPI_Win_fence(0, w->win));
    OK(MPI_Get(&result, 1, MPI_DOUBLE_INT, 0, at(w, 0, 0), 1, MPI_DOUBLE_INT, w->win));
    OK(MPI_Win_fence(0, w->win));
    CHECK(result.value == size_of_comm - 1 && result.index == size_of_comm - 1, "maxloc: %g at %d", result.value,
          result.index);
    unsigned char bit = (unsigned char)(1 << rank_in_comm % 8);
    OK(MPI_Accumulate(&bit, 1, MPI_BYTE, 0, at(w, 0, 8), 1, MPI_BYTE, MPI_BOR, w->win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    int expected = size_of_comm >= 8 ? 255 : (1 << size_of_comm) - 1;
    if (rank_in_comm == 0)
        CHECK(*(unsigned char *)(w->memory + 8) == expected, "bits %d", *(unsigned char *)(w->memory + 8));
    OK(MPI_Barrier(w->comm));
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 3, 2500, 9000};
    MPI_Comm host;
    check_start(&argc, &argv);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        struct window w = make(flavor, flavor == SHARED ? host : MPI_COMM_WORLD);
        OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        for (int way = 0; way < WAYS; way++) {
            for (int i = 0; i < 4; i++)
                if (counts[i] * size_of_comm <= INTS) puts_and_gets(&w, way, counts[i]);
            strided(&w, way);
            accumulates(&w, way);
        }
        exclusive(&w);
        requests(&w);
        other_types(&w);
        end(&w);
    }
    MPI_Comm_free(&host);
    return check_end();
}
