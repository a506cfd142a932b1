/* Collectives at any number of ranks: µs per call, the slowest rank's time.
 *
 * Rooted operations (broadcast, reduce, gather, scatter) are timed together with a barrier: without one, a
 * loop of them is a pipeline and shows throughput. Their names end in `+barrier`.
 *
 * Only if they are named: `alltoallv` of 8 bytes, which is always a schedule of messages; `turns`, a barrier
 * among the ranks of each CPU, on all CPUs at once, where ranks are dealt out to CPUs in turn (BENCH_APART)
 * and each has several.
 *
 * Usage: collectives [NAME …]; with names, only those (without the suffix). BENCH_SIZE: each with so many
 * bytes (a multiple of 8) instead of its own lengths. */
#include "bench.h"

struct work { char *out, *in; int bytes; };

static void barrier(void *context, int repetitions)
{
    (void)context;
    for (int i = 0; i < repetitions; i++) MPI_Barrier(MPI_COMM_WORLD);
}

/* Blocks of 8 bytes, one after the other. */
struct blocks { double *out, *in; int *counts, *displs; };

static void alltoallv(void *context, int repetitions)
{
    struct blocks *b = context;
    int *counts = b->counts, *displs = b->displs;
    for (int i = 0; i < repetitions; i++)
        MPI_Alltoallv(b->out, counts, displs, MPI_DOUBLE, b->in, counts, displs, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void measure_alltoallv(void)
{
    size_t n = (size_t)bench_size;
    struct blocks b = {malloc(8 * n), malloc(8 * n), malloc(n * sizeof(int)), malloc(n * sizeof(int))};
    for (int i = 0; i < bench_size; i++) {
        b.out[i] = b.in[i] = 0;
        b.counts[i] = 1;
        b.displs[i] = i;
    }
    bench_result("alltoallv", (size_t)8, bench_measure(alltoallv, &b) * 1e6, "us");
    free(b.out);
    free(b.in);
    free(b.counts);
    free(b.displs);
}

static MPI_Comm beside;

static void turns(void *context, int repetitions)
{
    (void)context;
    for (int i = 0; i < repetitions; i++) MPI_Barrier(beside);
}

/* Seconds: the mean of all CPUs, for none waits for another. Making a communicator wakes the library's
 * thread, which looks seldom again when calls have kept coming for some time. */
static double turns_measured(void)
{
    double samples[BENCH_SAMPLES], seconds = 0;
    for (int i = 0; i < 4; i++) seconds = bench_measure_here(turns, NULL);
    int repetitions = 1 + (int)(bench_budget_s() / BENCH_SAMPLES / seconds);
    MPI_Bcast(&repetitions, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < BENCH_SAMPLES; i++) {
        double mine = bench_time(turns, NULL, repetitions), all;
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        samples[i] = all / bench_size / repetitions;
    }
    return bench_median(samples, BENCH_SAMPLES);
}

static void bcast(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        MPI_Bcast(w->out, w->bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void reduce(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        MPI_Reduce(w->out, w->in, w->bytes / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void allreduce(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++)
        MPI_Allreduce(w->out, w->in, w->bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++)
        MPI_Alltoall(w->out, w->bytes, MPI_CHAR, w->in, w->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static void allgather(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++)
        MPI_Allgather(w->out, w->bytes, MPI_CHAR, w->in, w->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static void gather(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        MPI_Gather(w->out, w->bytes, MPI_CHAR, w->in, w->bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void scatter(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        MPI_Scatter(w->out, w->bytes, MPI_CHAR, w->in, w->bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void reduce_scatter(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++)
        MPI_Reduce_scatter_block(w->out, w->in, w->bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static const struct operation {
    const char *name, *label;
    bench_body body;
    int per_peer;      /* buffers hold one block of `bytes` for every rank */
    int sizes[4];      /* ends at -1 */
} operations[] = {
    {"barrier", "barrier", barrier, 0, {0, -1}},
    {"bcast", "bcast+barrier", bcast, 0, {8, 64 << 10, 1 << 20, -1}},
    {"reduce", "reduce+barrier", reduce, 0, {8, 64 << 10, -1}},
    {"allreduce", "allreduce", allreduce, 0, {8, 64 << 10, 1 << 20, -1}},
    {"alltoall", "alltoall", alltoall, 1, {8, 1 << 10, 32 << 10, -1}},
    {"allgather", "allgather", allgather, 1, {8, 1 << 10, -1}},
    {"gather", "gather+barrier", gather, 1, {1 << 10, -1}},
    {"scatter", "scatter+barrier", scatter, 1, {1 << 10, -1}},
    {"reduce_scatter", "reduce_scatter_block", reduce_scatter, 1, {1 << 10, -1}},
};

/* Ranks of each CPU; 0: not all have as many, or each has one. */
static int ranks_of_cpu(void)
{
    int is_dealt = bench_size > bench_cpu_count && bench_size % bench_cpu_count == 0;
    return is_dealt ? bench_size / bench_cpu_count : 0;
}

static int wanted(const char *name, int argc, char **argv)
{
    if (argc < 2) return 1;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name)) return 1;
    return 0;
}

static void measure(const struct operation *op, int length)
{
    size_t bytes = (size_t)length, all = op->per_peer ? bytes * (size_t)bench_size : bytes;
    struct work w = {bench_buffer(all), bench_buffer(all), length};
    memset(w.out, 0, all); /* sums of doubles stay zero: no denormals, no infinities */
    memset(w.in, 0, all);
    bench_result(op->label, bytes, bench_measure(op->body, &w) * 1e6, "us");
    free(w.out);
    free(w.in);
}

int main(int argc, char **argv)
{
    const char *length = getenv("BENCH_SIZE");
    bench_start(&argc, &argv);
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        const struct operation *op = &operations[o];
        if (!wanted(op->name, argc, argv)) continue;
        if (length && op->sizes[0] > 0) measure(op, atoi(length));
        for (int i = 0; !length && op->sizes[i] >= 0; i++) measure(op, op->sizes[i]);
    }
    if (argc > 1 && wanted("alltoallv", argc, argv)) measure_alltoallv();
    if (argc > 1 && wanted("turns", argc, argv) && ranks_of_cpu()) {
        MPI_Comm_split(MPI_COMM_WORLD, bench_rank % bench_cpu_count, bench_rank, &beside);
        bench_result("turns", (size_t)0, turns_measured() * 1e6, "us");
        MPI_Comm_free(&beside);
    }
    MPI_Finalize();
    return 0;
}
