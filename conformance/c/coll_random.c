/* Collective operations at random, several under way at once, on communicators of several kinds: each result
 * is checked.
 *
 *     coll_random [SEED [ROUNDS]]      7 and 40 by default; a failure names the round
 */
#include "check.h"

enum { UNDER_WAY_MAX = 5, COMMS = 4 };
enum { BCAST, REDUCE, ALLREDUCE, GATHERV, SCATTERV, ALLGATHERV, ALLTOALL };
enum { SCAN = ALLTOALL + 1, EXSCAN, REDUCE_SCATTER, BARRIER, KINDS };

struct operation {
    int kind, root, count, rank, size, in_place;
    uint32_t name;
    MPI_Comm comm;
    int *in, *out, *counts, *begins;
};

static uint64_t shared;
static MPI_Comm comms[COMMS];
static int round_number;

static int below(int bound)
{
    shared = shared * 6364136223846793005u + 1442695040888963407u;
    return (int)((shared >> 33) % (uint64_t)bound);
}

/* Element `i` of what a rank gives. */
static int given(const struct operation *op, int rank, int i)
{
    return (int)((op->name + (uint32_t)rank * 7919u + (uint32_t)i * 13u) % 10007u);
}

/* The sum of what the ranks below `end` give. */
static int sum_below(const struct operation *op, int end, int i)
{
    int sum = 0;
    for (int rank = 0; rank < end; rank++) sum += given(op, rank, i);
    return sum;
}

/* Elements of a rank in operations whose ranks have different numbers of them. */
static int count_of(const struct operation *op, int rank)
{
    int differ = op->kind == GATHERV || op->kind == SCATTERV || op->kind == ALLGATHERV;
    return differ ? op->count / (1 + rank % 3) : op->count;
}

static struct operation draw(void)
{
    static const int lengths[] = {0, 1, 2, 7, 100, 1000, 1024, 4096, 5000, 20000};
    struct operation op = {.kind = below(KINDS), .comm = comms[below(COMMS)]};
    op.name = (uint32_t)below(1 << 20);
    OK(MPI_Comm_rank(op.comm, &op.rank));
    OK(MPI_Comm_size(op.comm, &op.size));
    op.root = below(1 << 16) % op.size;
    op.count = lengths[below(10)];
    op.in_place = below(2);
    size_t elements = (size_t)(op.count * op.size) + 1;
    op.in = check_alloc(elements * sizeof *op.in), op.out = check_alloc(elements * sizeof *op.out);
    op.counts = check_alloc((size_t)op.size * sizeof *op.counts);
    op.begins = check_alloc((size_t)op.size * sizeof *op.begins);
    for (int rank = 0, begin = 0; rank < op.size; rank++) {
        op.counts[rank] = count_of(&op, rank);
        op.begins[rank] = begin, begin += op.counts[rank];
    }
    for (size_t i = 0; i < elements; i++) op.in[i] = given(&op, op.rank, (int)i), op.out[i] = -1;
    if (op.in_place)
        for (size_t i = 0; i < elements; i++) op.out[i] = op.in[i];
    return op;
}

static void start(struct operation *op, MPI_Request *request)
{
    const int *in = op->in;
    int *out = op->out, count = op->count, mine = count_of(op, op->rank), root = op->root;
    MPI_Comm comm = op->comm;
    const void *or_in_place = op->in_place ? MPI_IN_PLACE : in;
    switch (op->kind) {
    case BCAST:
        if (op->rank == root) memcpy(out, in, (size_t)count * sizeof *out);
        OK(MPI_Ibcast(out, count, MPI_INT, root, comm, request));
        break;
    case REDUCE:
        if (op->rank != root) or_in_place = in;
        OK(MPI_Ireduce(or_in_place, out, count, MPI_INT, MPI_SUM, root, comm, request));
        break;
    case ALLREDUCE: OK(MPI_Iallreduce(or_in_place, out, count, MPI_INT, MPI_SUM, comm, request)); break;
    case GATHERV:
        OK(MPI_Igatherv(in, mine, MPI_INT, out, op->counts, op->begins, MPI_INT, root, comm, request));
        break;
    case SCATTERV:
        OK(MPI_Iscatterv(in, op->counts, op->begins, MPI_INT, out, mine, MPI_INT, root, comm, request));
        break;
    case ALLGATHERV:
        OK(MPI_Iallgatherv(in, mine, MPI_INT, out, op->counts, op->begins, MPI_INT, comm, request));
        break;
    case ALLTOALL: OK(MPI_Ialltoall(or_in_place, count, MPI_INT, out, count, MPI_INT, comm, request)); break;
    case SCAN: OK(MPI_Iscan(or_in_place, out, count, MPI_INT, MPI_SUM, comm, request)); break;
    case EXSCAN: OK(MPI_Iexscan(or_in_place, out, count, MPI_INT, MPI_SUM, comm, request)); break;
    case REDUCE_SCATTER:
        OK(MPI_Ireduce_scatter(or_in_place, out, op->counts, MPI_INT, MPI_SUM, comm, request));
        break;
    default: OK(MPI_Ibarrier(comm, request));
    }
}

/* Element `i` of what a rank must have, and -1 where it has nothing to have. */
static int expected(const struct operation *op, int i)
{
    int size = op->size, rank = op->rank, count = op->count, from = 0;
    switch (op->kind) {
    case BCAST: return i < count ? given(op, op->root, i) : -1;
    case REDUCE: return i < count && rank == op->root ? sum_below(op, size, i) : -1;
    case ALLREDUCE: return i < count ? sum_below(op, size, i) : -1;
    case SCATTERV: return i < count_of(op, rank) ? given(op, op->root, op->begins[rank] + i) : -1;
    case ALLTOALL: return count && i / count < size ? given(op, i / count, rank * count + i % count) : -1;
    case SCAN: return i < count ? sum_below(op, rank + 1, i) : -1;
    case EXSCAN: return i < count && rank ? sum_below(op, rank, i) : -1;
    case REDUCE_SCATTER: return i < count ? sum_below(op, size, rank * count + i) : -1;
    case GATHERV:
        if (rank != op->root) return -1;
        /* fall through */
    case ALLGATHERV:
        while (from < size && i >= op->begins[from] + op->counts[from]) from++;
        return from < size ? given(op, from, i - op->begins[from]) : -1;
    default: return -1;
    }
}

static void check_result(struct operation *op)
{
    for (int i = 0; i < op->count * op->size; i++) {
        int wanted = expected(op, i);
        if (wanted < 0 || op->out[i] == wanted) continue;
        CHECK(0, "round %d: operation %d of %d on %d ranks: element %d is %d, not %d", round_number, op->kind,
              op->count, op->size, i, op->out[i], wanted);
        break;
    }
    free(op->in), free(op->out), free(op->counts), free(op->begins);
}

static void one_round(void)
{
    struct operation all[UNDER_WAY_MAX];
    MPI_Request requests[UNDER_WAY_MAX];
    int count = 1 + below(UNDER_WAY_MAX), at_once = below(3) > 0;
    for (int i = 0; i < count; i++) {
        all[i] = draw();
        start(&all[i], &requests[i]);
        if (!at_once) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; i++) check_result(&all[i]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int rounds = argc > 2 ? atoi(argv[2]) : 40;
    shared = argc > 1 ? strtoull(argv[1], NULL, 0) : 7;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[2]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &comms[3]));
    for (round_number = 0; round_number < rounds && check_errors == 0; round_number++) one_round();
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
