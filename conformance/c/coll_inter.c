/* Collective operations of intercommunicators: each side gets what the other gives. Blocking, non-blocking and persistent,
 * with types that have gaps. */
#include "check.h"

static MPI_Comm inter;
static int side, local_rank, local_size, remote_size;

enum mode { BLOCKING, NONBLOCKING, PERSISTENT, MODES };

/* Runs an operation in one of its forms; a persistent one twice, with `again` in between. */
#define FORMS(mode, name, lower, again, ...) \
    do { \
        MPI_Request one_; \
        if (mode == BLOCKING) OK(MPI_##name(__VA_ARGS__)); \
        else if (mode == NONBLOCKING) { \
            OK(MPI_I##lower(__VA_ARGS__, &one_)); \
            OK(MPI_Wait(&one_, MPI_STATUS_IGNORE)); \
        } else { \
            OK(MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &one_)); \
            OK(MPI_Start(&one_)); \
            OK(MPI_Wait(&one_, MPI_STATUS_IGNORE)); \
            again; \
            OK(MPI_Start(&one_)); \
            OK(MPI_Wait(&one_, MPI_STATUS_IGNORE)); \
            OK(MPI_Request_free(&one_)); \
        } \
    } while (0)

/* A value that names who (side, rank), to whom, and which. */
static int value(int of_side, int rank, int to, int i) { return ((of_side * 64 + rank) * 64 + to) * 4096 + i % 4096; }

static void blank(int *memory, int count)
{
    for (int i = 0; i < count; i++) memory[i] = -1;
}

/* The root's argument of an operation whose root is `root` of side `root_side`. */
static int root_argument(int root_side, int root)
{
    if (side != root_side) return root;
    return local_rank == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void rooted(enum mode mode, int count)
{
    int most = (count + local_size + remote_size) * (local_size + remote_size);
    int *out = check_alloc(most * sizeof *out), *in = check_alloc(most * sizeof *in);
    for (int root_side = 0; root_side < 2; root_side++) {
        int root_group = side == root_side ? local_size : remote_size;
        for (int root = 0; root < root_group; root += root_group > 2 ? root_group - 1 : 1) {
            int argument = root_argument(root_side, root), is_root = argument == MPI_ROOT;
            int has_part = side != root_side;
            /* Broadcast. */
            for (int i = 0; i < count; i++) in[i] = is_root ? value(side, root, 0, i) : -1;
            FORMS(mode, Bcast, bcast, if (has_part) blank(in, count), in, count, MPI_INT, argument, inter);
            for (int i = 0; i < count; i++) {
                int wanted = is_root || has_part ? value(root_side, root, 0, i) : -1;
                CHECK(in[i] == wanted, "bcast: [%d] is %d, not %d", i, in[i], wanted);
            }
            /* Gather; what means nothing is wrong on purpose. */
            for (int i = 0; i < count; i++) out[i] = value(side, local_rank, 0, i);
            blank(in, most);
            FORMS(mode, Gather, gather, blank(in, most), has_part ? out : NULL, has_part ? count : -5,
                  has_part ? MPI_INT : MPI_DATATYPE_NULL, is_root ? in : NULL, is_root ? count : -5,
                  is_root ? MPI_INT : MPI_DATATYPE_NULL, argument, inter);
            for (int i = 0; is_root && i < count * remote_size; i++)
                CHECK(in[i] == value(1 - side, i / (count ? count : 1), 0, i % count), "gather: [%d] is %d", i, in[i]);
            /* Scatter. */
            for (int i = 0; i < count * remote_size; i++) out[i] = value(side, local_rank, i / count, i % count);
            blank(in, count);
            FORMS(mode, Scatter, scatter, blank(in, count), is_root ? out : NULL, is_root ? count : -5,
                  is_root ? MPI_INT : MPI_DATATYPE_NULL, has_part ? in : NULL, has_part ? count : -5,
                  has_part ? MPI_INT : MPI_DATATYPE_NULL, argument, inter);
            for (int i = 0; has_part && i < count; i++)
                CHECK(in[i] == value(root_side, root, local_rank, i), "scatter: [%d] is %d", i, in[i]);
            /* With counts: rank r gives count + r, the last ones first, a gap between. */
            int *counts = check_alloc(remote_size * sizeof *counts), *displs = check_alloc(remote_size * sizeof *displs);
            for (int r = remote_size - 1, at = 0; r >= 0; at += counts[r--] + 1) counts[r] = count + r, displs[r] = at;
            for (int i = 0; i < count + local_rank; i++) out[i] = value(side, local_rank, 1, i);
            blank(in, most);
            FORMS(mode, Gatherv, gatherv, blank(in, most), out, count + local_rank, MPI_INT, in, counts, displs,
                  MPI_INT, argument, inter);
            for (int r = 0; is_root && r < remote_size; r++) {
                for (int i = 0; i < counts[r]; i++)
                    CHECK(in[displs[r] + i] == value(1 - side, r, 1, i), "gatherv: [%d] of %d", i, r);
                CHECK(in[displs[r] + counts[r]] == -1, "gatherv writes behind %d", r);
            }
            for (int r = 0; r < remote_size; r++)
                for (int i = 0; i < counts[r]; i++) out[displs[r] + i] = value(side, local_rank, r, i);
            blank(in, most);
            FORMS(mode, Scatterv, scatterv, blank(in, most), out, counts, displs, MPI_INT, in, count + local_rank,
                  MPI_INT, argument, inter);
            for (int i = 0; has_part && i < count + local_rank; i++)
                CHECK(in[i] == value(root_side, root, local_rank, i), "scatterv: [%d] is %d", i, in[i]);
            free(counts);
            free(displs);
            /* Reduce: rank r gives r + 1 + i. */
            for (int i = 0; i < count; i++) out[i] = local_rank + 1 + i;
            blank(in, count);
            int means_nothing = !has_part && !is_root;
            FORMS(mode, Reduce, reduce, blank(in, count), has_part ? out : NULL, is_root ? in : NULL,
                  means_nothing ? -5 : count, means_nothing ? MPI_BYTE : MPI_INT,
                  MPI_SUM, argument, inter);
            for (int i = 0; i < count; i++) {
                int wanted = is_root ? remote_size * (remote_size + 1) / 2 + i * remote_size : -1;
                CHECK(in[i] == wanted, "reduce: [%d] is %d, not %d", i, in[i], wanted);
            }
        }
    }
    free(out);
    free(in);
}

/* A type each: ints here, pairs of them with a gap where ranks are odd. */
static void with_types(enum mode mode)
{
    int *counts = check_alloc(remote_size * sizeof *counts), *displs = check_alloc(remote_size * sizeof *displs);
    int *out_counts = check_alloc(remote_size * sizeof *counts), *out_displs = check_alloc(remote_size * sizeof *displs);
    int *out = check_alloc(2 * remote_size * sizeof *out);
    MPI_Datatype *types = check_alloc(remote_size * sizeof *types), *plain = check_alloc(remote_size * sizeof *plain);
    MPI_Datatype spaced;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &spaced));
    OK(MPI_Type_commit(&spaced));
    for (int r = 0; r < remote_size; r++) {
        types[r] = r % 2 ? spaced : MPI_INT, plain[r] = MPI_INT;
        counts[r] = r % 2 ? 1 : 2, displs[r] = r * 3 * (int)sizeof(int);
        out_counts[r] = 2, out_displs[r] = 2 * r * (int)sizeof(int);
        out[2 * r] = value(side, local_rank, r, 0), out[2 * r + 1] = value(side, local_rank, r, 1);
    }
    int *wide = check_alloc(3 * remote_size * sizeof *wide);
    blank(wide, 3 * remote_size);
    FORMS(mode, Alltoallw, alltoallw, blank(wide, 3 * remote_size), out, out_counts, out_displs, plain, wide, counts,
          displs, types, inter);
    for (int r = 0; r < remote_size; r++) {
        int first = value(1 - side, r, local_rank, 0), second = value(1 - side, r, local_rank, 1);
        int *got = wide + 3 * r, gap = r % 2;
        CHECK(got[0] == first && got[1 + gap] == second && got[2 - gap] == -1, "alltoallw: %d %d %d", got[0], got[1], got[2]);
    }
    free(wide);
    free(types);
    free(plain);
    OK(MPI_Type_free(&spaced));
    free(out_counts);
    free(out_displs);
    free(counts);
    free(displs);
    free(out);
}

static void all(enum mode mode, int count)
{
    int most = (count + local_size + remote_size + 1) * (local_size + remote_size);
    int *out = check_alloc(most * sizeof *out), *in = check_alloc(most * sizeof *in);
    int *counts = check_alloc(remote_size * sizeof *counts), *displs = check_alloc(remote_size * sizeof *displs);
    int *out_counts = check_alloc(remote_size * sizeof *counts), *out_displs = check_alloc(remote_size * sizeof *displs);
    FORMS(mode, Barrier, barrier, (void)0, inter);
    /* The sides give blocks of different lengths. */
    int own = count + side, other = count + 1 - side;
    for (int i = 0; i < own; i++) out[i] = value(side, local_rank, 0, i);
    blank(in, most);
    FORMS(mode, Allgather, allgather, blank(in, most), out, own, MPI_INT, in, other, MPI_INT, inter);
    for (int i = 0; i < other * remote_size; i++)
        CHECK(in[i] == value(1 - side, i / other, 0, i % other), "allgather: [%d] is %d", i, in[i]);
    CHECK(in[other * remote_size] == -1, "allgather writes behind its end");
    for (int r = remote_size - 1, at = 0; r >= 0; at += counts[r--] + 1) counts[r] = count + r, displs[r] = at;
    for (int i = 0; i < count + local_rank; i++) out[i] = value(side, local_rank, 1, i);
    blank(in, most);
    FORMS(mode, Allgatherv, allgatherv, blank(in, most), out, count + local_rank, MPI_INT, in, counts, displs, MPI_INT,
          inter);
    for (int r = 0; r < remote_size; r++) {
        for (int i = 0; i < counts[r]; i++)
            CHECK(in[displs[r] + i] == value(1 - side, r, 1, i), "allgatherv: [%d] of %d", i, r);
        CHECK(in[displs[r] + counts[r]] == -1, "allgatherv writes behind %d", r);
    }
    for (int i = 0; i < count * remote_size; i++) out[i] = value(side, local_rank, i / count, i % count);
    blank(in, most);
    FORMS(mode, Alltoall, alltoall, blank(in, most), out, count, MPI_INT, in, count, MPI_INT, inter);
    for (int i = 0; i < count * remote_size; i++)
        CHECK(in[i] == value(1 - side, i / count, local_rank, i % count), "alltoall: [%d] is %d", i, in[i]);
    /* From a to b of the other side go count + (a + b) % 3. */
    for (int r = 0, at = 0; r < remote_size; at += counts[r++] + 1) {
        out_counts[r] = counts[r] = count + (local_rank + r) % 3;
        out_displs[r] = displs[r] = at;
        for (int i = 0; i < counts[r]; i++) out[at + i] = value(side, local_rank, r, i);
    }
    blank(in, most);
    FORMS(mode, Alltoallv, alltoallv, blank(in, most), out, out_counts, out_displs, MPI_INT, in, counts, displs,
          MPI_INT, inter);
    for (int r = 0; r < remote_size; r++) {
        for (int i = 0; i < counts[r]; i++)
            CHECK(in[displs[r] + i] == value(1 - side, r, local_rank, i), "alltoallv: [%d] of %d", i, r);
        CHECK(in[displs[r] + counts[r]] == -1, "alltoallv writes behind %d", r);
    }
    with_types(mode);
    for (int i = 0; i < count; i++) out[i] = local_rank + 1 + i;
    blank(in, count + 1);
    FORMS(mode, Allreduce, allreduce, blank(in, count), out, in, count, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < count; i++)
        CHECK(in[i] == remote_size * (remote_size + 1) / 2 + i * remote_size, "allreduce: [%d] is %d", i, in[i]);
    free(out_counts);
    free(out_displs);
    free(counts);
    free(displs);
    free(out);
    free(in);
}

/* The result of the other side, divided among this one. The total is the same on both sides. */
static void divided(enum mode mode, int count)
{
    int total = count * local_size * remote_size, each = total / local_size, first = local_rank * each;
    int *out = check_alloc(total * sizeof *out), *in = check_alloc((total + 1) * sizeof *in);
    int *counts = check_alloc(local_size * sizeof *counts);
    for (int i = 0; i < total; i++) out[i] = local_rank + 1 + i;
    blank(in, total + 1);
    FORMS(mode, Reduce_scatter_block, reduce_scatter_block, blank(in, total), out, in, each, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < each; i++)
        CHECK(in[i] == remote_size * (remote_size + 1) / 2 + (first + i) * remote_size, "block: [%d] is %d", i, in[i]);
    CHECK(in[each] == -1, "reduce_scatter_block writes behind its end");
    /* All to the last but one element to the first. */
    for (int r = 0; r < local_size; r++) counts[r] = 0;
    counts[local_size - 1] = total ? total - 1 : 0;
    counts[0] += total ? 1 : 0;
    first = local_size > 1 && local_rank == local_size - 1 ? 1 : 0;
    blank(in, total + 1);
    FORMS(mode, Reduce_scatter, reduce_scatter, blank(in, total), out, in, counts, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < counts[local_rank]; i++)
        CHECK(in[i] == remote_size * (remote_size + 1) / 2 + (first + i) * remote_size, "part: [%d] is %d", i, in[i]);
    CHECK(in[counts[local_rank]] == -1, "reduce_scatter writes behind its end");
    free(counts);
    free(out);
    free(in);
}

/* Does not commute: 2x2 matrices. */
static void multiply(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int at = 0; at < *count; at++) {
        unsigned *a = (unsigned *)left + 4 * at, *b = (unsigned *)right + 4 * at;
        unsigned product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                               a[2] * b[1] + a[3] * b[3]};
        memcpy(b, product, sizeof product);
    }
}

static void in_order(void)
{
    MPI_Datatype matrix;
    MPI_Op op;
    unsigned own[4] = {1 + local_rank, 2, 3, 5 + side}, got[4] = {0}, wanted[4] = {1, 0, 0, 1};
    OK(MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix));
    OK(MPI_Type_commit(&matrix));
    OK(MPI_Op_create(multiply, 0, &op));
    for (int r = remote_size - 1; r >= 0; r--) {
        unsigned factor[4] = {1 + r, 2, 3, 5 + 1 - side};
        int one = 1;
        multiply(factor, wanted, &one, &matrix);
    }
    OK(MPI_Allreduce(own, got, 1, matrix, op, inter));
    CHECK(memcmp(got, wanted, sizeof got) == 0, "the product is %u %u %u %u", got[0], got[1], got[2], got[3]);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&matrix));
}

/* Data with gaps: every second int. */
static void gaps(void)
{
    MPI_Datatype spaced;
    int in[6] = {-1, -1, -1, -1, -1, -1}, argument = root_argument(0, 0);
    OK(MPI_Type_vector(3, 1, 2, MPI_INT, &spaced));
    OK(MPI_Type_commit(&spaced));
    if (argument == MPI_ROOT) in[0] = 1, in[2] = 2, in[4] = 3;
    OK(MPI_Bcast(in, 1, spaced, argument, inter));
    if (side == 1) CHECK(in[0] == 1 && in[1] == -1 && in[2] == 2 && in[3] == -1 && in[4] == 3, "gaps are written");
    OK(MPI_Type_free(&spaced));
}

static void errors(void)
{
    int one = 1, two = 0;
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    FAILS(MPI_Bcast(&one, 1, MPI_INT, remote_size, inter), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(&one, 1, MPI_INT, MPI_ANY_SOURCE, inter), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(&one, 1, MPI_INT, MPI_ROOT, MPI_COMM_SELF), MPI_ERR_ROOT);
    FAILS(MPI_Allreduce(MPI_IN_PLACE, &two, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER);
    FAILS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, &two, 1, MPI_INT, inter), MPI_ERR_BUFFER);
    FAILS(MPI_Scan(&one, &two, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    FAILS(MPI_Exscan(&one, &two, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    FAILS(MPI_Bcast(&one, -1, MPI_INT, MPI_ROOT, inter), MPI_ERR_COUNT);
}

int main(int argc, char **argv)
{
    MPI_Comm local;
    check_start(&argc, &argv);
    CHECK_NEED(2);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    /* One against the others, then as equal as can be. */
    for (int cut = 1; cut <= (check_size + 1) / 2; cut += (check_size + 1) / 2 > 1 ? (check_size + 1) / 2 - 1 : 1) {
        side = check_rank >= cut;
        OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
        OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : cut, 1, &inter));
        OK(MPI_Comm_rank(inter, &local_rank));
        OK(MPI_Comm_size(inter, &local_size));
        OK(MPI_Comm_remote_size(inter, &remote_size));
        for (enum mode mode = BLOCKING; mode < MODES; mode++) {
            for (int at = 0; at < 3; at++) {
                int count = (int[]){1, 7, 3001}[at];
                rooted(mode, count);
                all(mode, count);
                divided(mode, count > 7 ? 100 : count);
            }
        }
        in_order();
        gaps();
        errors();
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&local));
    }
    return check_end();
}
