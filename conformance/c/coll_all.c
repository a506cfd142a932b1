/* Collectives without a root: blocking and non-blocking, in place, v-variants, many lengths. */
#include "check.h"

/* Non-blocking form, or the blocking one: one body checks both. */
#define RUN(blocking, nonblocking, ...) \
    do { \
        if (immediate) { \
            MPI_Request request_; \
            OK(nonblocking(__VA_ARGS__, MPI_COMM_WORLD, &request_)); \
            OK(MPI_Wait(&request_, MPI_STATUS_IGNORE)); \
        } else \
            OK(blocking(__VA_ARGS__, MPI_COMM_WORLD)); \
    } while (0)

static int immediate, in_place;
static int *out, *in, *out_counts, *out_places, *in_counts, *in_places;

/* Word `i` of what `from` has for `to`. */
static int value(int from, int to, int i) { return from * 1000003 + to * 1009 + i * 3 + 1; }

/* Compares and reports only the first difference of one call. */
#define SAME(what, count, index, got, wanted) \
    if ((got) != (wanted)) { \
        CHECK(0, "%s of %d%s%s: word %d is %d, not %d", what, count, immediate ? ", non-blocking" : "", \
              in_place ? ", in place" : "", index, (int)(got), (int)(wanted)); \
        return; \
    }

static void allgather(int count)
{
    for (int i = 0; i < count * check_size; i++) in[i] = -1;
    for (int i = 0; i < count; i++) out[i] = value(check_rank, 0, i);
    if (in_place) {
        memcpy(in + check_rank * count, out, sizeof(int) * (size_t)count);
        RUN(MPI_Allgather, MPI_Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT);
    } else
        RUN(MPI_Allgather, MPI_Iallgather, out, count, MPI_INT, in, count, MPI_INT);
    for (int i = 0; i < count * check_size; i++) SAME("allgather", count, i, in[i], value(i / count, 0, i % count));
}

static void allgatherv(int count)
{
    int place = 0;
    for (int r = check_size - 1; r >= 0; r--) { /* blocks lie backwards, with gaps */
        in_counts[r] = r % 4 == 3 ? 0 : count + r % 3;
        in_places[r] = place;
        place += in_counts[r] + 1;
    }
    for (int i = 0; i < place; i++) in[i] = -1;
    for (int i = 0; i < in_counts[check_rank]; i++) out[i] = value(check_rank, 1, i);
    if (in_place) {
        memcpy(in + in_places[check_rank], out, sizeof(int) * (size_t)in_counts[check_rank]);
        RUN(MPI_Allgatherv, MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, in_counts, in_places, MPI_INT);
    } else
        RUN(MPI_Allgatherv, MPI_Iallgatherv, out, in_counts[check_rank], MPI_INT, in, in_counts, in_places, MPI_INT);
    for (int r = 0; r < check_size; r++) {
        for (int i = 0; i < in_counts[r]; i++) SAME("allgatherv", count, i, in[in_places[r] + i], value(r, 1, i));
        SAME("allgatherv (gap)", count, r, in[in_places[r] + in_counts[r]], -1);
    }
}

static void alltoall(int count)
{
    int *send = in_place ? in : out;
    for (int i = 0; i < count * check_size; i++) {
        in[i] = -1;
        send[i] = value(check_rank, i / count, i % count);
    }
    if (in_place)
        RUN(MPI_Alltoall, MPI_Ialltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT);
    else
        RUN(MPI_Alltoall, MPI_Ialltoall, out, count, MPI_INT, in, count, MPI_INT);
    for (int i = 0; i < count * check_size; i++)
        SAME("alltoall", count, i, in[i], value(i / count, check_rank, i % count));
}

/* Rank a sends (a + b) % 4 words more than `count` to b, nothing where (a + b) % 5 == 4: symmetric, as in place wants. */
static int words(int a, int b, int count) { return (a + b) % 5 == 4 ? 0 : count + (a + b) % 4; }

static int v_layout(int count)
{
    int place = 0;
    for (int r = 0; r < check_size; r++) {
        in_counts[r] = out_counts[r] = words(check_rank, r, count);
        in_places[r] = out_places[r] = place;
        place += in_counts[r] + 1;
    }
    return place;
}

static void v_fill(int *send, int end)
{
    for (int i = 0; i < end; i++) out[i] = in[i] = -1;
    for (int r = 0; r < check_size; r++)
        for (int i = 0; i < out_counts[r]; i++) send[out_places[r] + i] = value(check_rank, r, i);
}

static void alltoallv(int count)
{
    v_fill(in_place ? in : out, v_layout(count));
    if (in_place)
        RUN(MPI_Alltoallv, MPI_Ialltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, in_counts, in_places, MPI_INT);
    else
        RUN(MPI_Alltoallv, MPI_Ialltoallv, out, out_counts, out_places, MPI_INT, in, in_counts, in_places, MPI_INT);
    for (int r = 0; r < check_size; r++) {
        for (int i = 0; i < in_counts[r]; i++)
            SAME("alltoallv", count, i, in[in_places[r] + i], value(r, check_rank, i));
        SAME("alltoallv (gap)", count, r, in[in_places[r] + in_counts[r]], -1);
    }
}

/* With a type of its own for each peer and displacements in bytes. */
static void alltoallw(int count)
{
    MPI_Datatype *types = check_alloc(sizeof *types * (size_t)check_size);
    v_fill(in_place ? in : out, v_layout(count));
    for (int r = 0; r < check_size; r++) {
        int as_bytes = (check_rank + r) % 2;
        types[r] = as_bytes ? MPI_BYTE : MPI_INT;
        in_places[r] = out_places[r] *= (int)sizeof(int);
        in_counts[r] = out_counts[r] *= as_bytes ? (int)sizeof(int) : 1;
    }
    if (in_place)
        RUN(MPI_Alltoallw, MPI_Ialltoallw, MPI_IN_PLACE, NULL, NULL, NULL, in, in_counts, in_places, types);
    else
        RUN(MPI_Alltoallw, MPI_Ialltoallw, out, out_counts, out_places, types, in, in_counts, in_places, types);
    free(types);
    for (int r = 0; r < check_size; r++)
        for (int i = 0; i < words(check_rank, r, count); i++)
            SAME("alltoallw", count, i, in[in_places[r] / (int)sizeof(int) + i], value(r, check_rank, i));
}

static void allreduce(int count)
{
    int *mine = in_place ? in : out, ranks = check_size * (check_size - 1) / 2;
    for (int i = 0; i < count; i++) {
        in[i] = -1;
        mine[i] = check_rank * 5 + i;
    }
    if (in_place) RUN(MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, in, count, MPI_INT, MPI_SUM);
    else RUN(MPI_Allreduce, MPI_Iallreduce, out, in, count, MPI_INT, MPI_SUM);
    for (int i = 0; i < count; i++) SAME("allreduce", count, i, in[i], 5 * ranks + check_size * i);
}

static void scans(int count, int exclusive)
{
    int *mine = in_place ? in : out, n = exclusive ? check_rank : check_rank + 1;
    for (int i = 0; i < count; i++) {
        in[i] = -1;
        mine[i] = check_rank * 5 + i;
    }
    void *send = in_place ? MPI_IN_PLACE : (void *)out;
    if (exclusive) RUN(MPI_Exscan, MPI_Iexscan, send, in, count, MPI_INT, MPI_SUM);
    else RUN(MPI_Scan, MPI_Iscan, send, in, count, MPI_INT, MPI_SUM);
    if (n == 0) return; /* rank 0 of an exclusive scan: undefined */
    for (int i = 0; i < count; i++)
        SAME(exclusive ? "exscan" : "scan", count, i, in[i], 5 * n * (n - 1) / 2 + n * i);
}

static void reduce_scatter(int count, int block)
{
    int all = 0, first = 0, *mine = in_place ? in : out;
    for (int r = 0; r < check_size; r++) {
        in_counts[r] = block ? count : r % 3 == 2 ? 0 : count + r;
        if (r < check_rank) first += in_counts[r];
        all += in_counts[r];
    }
    for (int i = 0; i < all; i++) {
        in[i] = -1;
        mine[i] = check_rank + i;
    }
    void *send = in_place ? MPI_IN_PLACE : (void *)out;
    if (block) RUN(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, send, in, count, MPI_INT, MPI_SUM);
    else RUN(MPI_Reduce_scatter, MPI_Ireduce_scatter, send, in, in_counts, MPI_INT, MPI_SUM);
    for (int i = 0; i < in_counts[check_rank]; i++)
        SAME(block ? "reduce_scatter_block" : "reduce_scatter", count, i, in[i],
             check_size * (check_size - 1) / 2 + check_size * (first + i));
}

static void everything(int count)
{
    allgather(count);
    allgatherv(count);
    alltoall(count);
    alltoallv(count);
    alltoallw(count);
    allreduce(count);
    scans(count, 0);
    scans(count, 1);
    reduce_scatter(count, 0);
    reduce_scatter(count, 1);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {0, 1, 2, 3, 8, 65, 500, 2048, 4097, 16384, 40000};
    check_start(&argc, &argv);
    size_t bytes = sizeof(int) * (size_t)(check_size + 1) * (40000 + 64 + (size_t)check_size);
    out = check_alloc(bytes);
    in = check_alloc(bytes);
    int **tables[] = {&out_counts, &out_places, &in_counts, &in_places};
    for (int i = 0; i < 4; i++) *tables[i] = check_alloc(sizeof(int) * (size_t)check_size);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (immediate = 0; immediate < 2; immediate++)
            for (in_place = 0; in_place < 2; in_place++) everything(lengths[l]);
    immediate = in_place = 0;
    allreduce(check_size > 1 ? 40000 * 2 : 40000);
    return check_end();
}
