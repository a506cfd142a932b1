/* Bcast, Gather(v), Scatter(v), Reduce: blocking and non-blocking, every root, in place, many lengths. */
#include "check.h"

/* Non-blocking form, or the blocking one: one body checks both. */
#define RUN(blocking, nonblocking, ...) \
    do { \
        if (immediate) { \
            MPI_Request request_; \
            OK(nonblocking(__VA_ARGS__, comm, &request_)); \
            OK(MPI_Wait(&request_, MPI_STATUS_IGNORE)); \
        } else \
            OK(blocking(__VA_ARGS__, comm)); \
    } while (0)

static MPI_Comm comm;
static int rank, size, immediate;
static int *out, *in, *counts, *places;

static int value(int who, int i) { return who * 100003 + i * 7 + 1; }

static void bcast(int root, int count)
{
    for (int i = 0; i < count; i++) in[i] = rank == root ? value(root, i) : -1;
    RUN(MPI_Bcast, MPI_Ibcast, in, count, MPI_INT, root);
    for (int i = 0; i < count; i++)
        if (in[i] != value(root, i)) {
            CHECK(0, "bcast of %d from %d: word %d is %d", count, root, i, in[i]);
            return;
        }
}

static void gather(int root, int count, int in_place)
{
    for (int i = 0; i < count; i++) out[i] = value(rank, i);
    for (int i = 0; i < count * size; i++) in[i] = -1;
    if (in_place && rank == root) {
        memcpy(in + rank * count, out, sizeof(int) * (size_t)count);
        RUN(MPI_Gather, MPI_Igather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT, root);
    } else if (rank == root)
        RUN(MPI_Gather, MPI_Igather, out, count, MPI_INT, in, count, MPI_INT, root);
    else /* the receive side means nothing here */
        RUN(MPI_Gather, MPI_Igather, out, count, MPI_INT, NULL, -1, MPI_DATATYPE_NULL, root);
    if (rank != root) return;
    for (int i = 0; i < count * size; i++)
        if (in[i] != value(i / count, i % count)) {
            CHECK(0, "gather of %d to %d: word %d is %d", count, root, i, in[i]);
            return;
        }
}

/* Rank r's part has count + r % 3 words; gaps of two words stay untouched. */
static int layout(int count)
{
    int place = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = count + r % 3;
        places[r] = place;
        place += counts[r] + 2;
    }
    return place;
}

static void gatherv(int root, int count, int in_place)
{
    int end = layout(count);
    for (int i = 0; i < counts[rank]; i++) out[i] = value(rank, i);
    for (int i = 0; i < end; i++) in[i] = -1;
    if (in_place && rank == root) {
        memcpy(in + places[rank], out, sizeof(int) * (size_t)counts[rank]);
        RUN(MPI_Gatherv, MPI_Igatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, places, MPI_INT, root);
    } else if (rank == root)
        RUN(MPI_Gatherv, MPI_Igatherv, out, counts[rank], MPI_INT, in, counts, places, MPI_INT, root);
    else
        RUN(MPI_Gatherv, MPI_Igatherv, out, counts[rank], MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, root);
    if (rank != root) return;
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < counts[r]; i++)
            CHECK(in[places[r] + i] == value(r, i), "gatherv of %d to %d: rank %d word %d", count, root, r, i);
        for (int i = 0; i < 2; i++)
            CHECK(in[places[r] + counts[r] + i] == -1, "gatherv of %d to %d wrote a gap", count, root);
    }
}

static void scatter(int root, int count, int in_place)
{
    for (int i = 0; i < count * size; i++) out[i] = value(i / (count ? count : 1), i % (count ? count : 1)) + root;
    for (int i = 0; i < count; i++) in[i] = -1;
    if (in_place && rank == root) {
        RUN(MPI_Scatter, MPI_Iscatter, out, count, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root);
        memcpy(in, out + rank * count, sizeof(int) * (size_t)count);
    } else if (rank == root)
        RUN(MPI_Scatter, MPI_Iscatter, out, count, MPI_INT, in, count, MPI_INT, root);
    else
        RUN(MPI_Scatter, MPI_Iscatter, NULL, -1, MPI_DATATYPE_NULL, in, count, MPI_INT, root);
    for (int i = 0; i < count; i++)
        if (in[i] != value(rank, i) + root) {
            CHECK(0, "scatter of %d from %d: word %d is %d", count, root, i, in[i]);
            return;
        }
}

static void scatterv(int root, int count, int in_place)
{
    layout(count);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < counts[r]; i++) out[places[r] + i] = value(r, i) + root;
    for (int i = 0; i < counts[rank] + 2; i++) in[i] = -1;
    if (in_place && rank == root) {
        RUN(MPI_Scatterv, MPI_Iscatterv, out, counts, places, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root);
        memcpy(in, out + places[rank], sizeof(int) * (size_t)counts[rank]);
    } else if (rank == root)
        RUN(MPI_Scatterv, MPI_Iscatterv, out, counts, places, MPI_INT, in, counts[rank], MPI_INT, root);
    else
        RUN(MPI_Scatterv, MPI_Iscatterv, NULL, NULL, NULL, MPI_DATATYPE_NULL, in, counts[rank], MPI_INT, root);
    for (int i = 0; i < counts[rank]; i++)
        CHECK(in[i] == value(rank, i) + root, "scatterv of %d from %d: word %d is %d", count, root, i, in[i]);
    CHECK(in[counts[rank]] == -1, "scatterv of %d from %d wrote past its end", count, root);
}

static void reduce(int root, int count, int in_place)
{
    int *mine = in_place && rank == root ? in : out;
    for (int i = 0; i < count; i++) out[i] = in[i] = -1;
    for (int i = 0; i < count; i++) mine[i] = rank * 3 + i;
    if (in_place && rank == root)
        RUN(MPI_Reduce, MPI_Ireduce, MPI_IN_PLACE, in, count, MPI_INT, MPI_SUM, root);
    else
        RUN(MPI_Reduce, MPI_Ireduce, out, rank == root ? in : NULL, count, MPI_INT, MPI_SUM, root);
    if (rank != root) return;
    for (int i = 0; i < count; i++) {
        int wanted = 3 * size * (size - 1) / 2 + size * i;
        if (in[i] != wanted) {
            CHECK(0, "reduce of %d to %d: word %d is %d, not %d", count, root, i, in[i], wanted);
            return;
        }
    }
}

static void everything(void)
{
    static const int lengths[] = {0, 1, 2, 5, 64, 333, 2048, 5000, 20000};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int root = 0; root < size; root++)
            for (immediate = 0; immediate < 2; immediate++) {
                bcast(root, lengths[l]);
                for (int in_place = 0; in_place < 2; in_place++) {
                    gather(root, lengths[l], in_place);
                    gatherv(root, lengths[l], in_place);
                    scatter(root, lengths[l], in_place);
                    scatterv(root, lengths[l], in_place);
                    reduce(root, lengths[l], in_place);
                }
            }
    immediate = 0;
    bcast(size - 1, 700000);
    reduce(size / 2, 300000, 0);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    size_t words = (size_t)(check_size * 20010 > 700000 ? check_size * 20010 : 700000);
    out = check_alloc(sizeof(int) * words);
    in = check_alloc(sizeof(int) * words);
    counts = check_alloc(sizeof(int) * (size_t)check_size);
    places = check_alloc(sizeof(int) * (size_t)check_size);
    comm = MPI_COMM_WORLD;
    rank = check_rank;
    size = check_size;
    everything();
    /* And in a communicator whose ranks run backwards, without the last process. */
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == check_size - 1 ? MPI_UNDEFINED : 0, -check_rank, &comm));
    if (comm != MPI_COMM_NULL) {
        OK(MPI_Comm_rank(comm, &rank));
        OK(MPI_Comm_size(comm, &size));
        everything();
        OK(MPI_Comm_free(&comm));
    }
    return check_end();
}
