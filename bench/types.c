/* Data with gaps, 1 MiB of it: MPI_Pack and MPI_Unpack, and half a round trip of a message. µs.
 *
 *   vector8     8-byte blocks, every second one           vector256   256-byte blocks, every second one
 *   subarray    64 x 32 x 64 of 128 x 64 x 128 doubles    indexed     blocks of 1 to 8 doubles
 *   struct      {int; double[3]; int}, with C's padding
 *
 * What was unpacked and received is compared with what was sent. */
#include "bench.h"

#include <stddef.h>

#define DATA_BYTES ((size_t)1 << 20)

struct record { int first; double middle[3]; int last; };

struct layout {
    const char *name;
    MPI_Datatype type;
    int count;
    size_t span;
};

struct work {
    struct layout *layout;
    char *memory, *packed;
};

static MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype vector(int block_doubles)
{
    MPI_Datatype type;
    int blocks = (int)(DATA_BYTES / sizeof(double)) / block_doubles;
    MPI_Type_vector(blocks, block_doubles, 2 * block_doubles, MPI_DOUBLE, &type);
    return committed(type);
}

static MPI_Datatype subarray(void)
{
    MPI_Datatype type;
    MPI_Type_create_subarray(3, (int[]){128, 64, 128}, (int[]){64, 32, 64}, (int[]){32, 16, 32}, MPI_ORDER_C,
                             MPI_DOUBLE, &type);
    return committed(type);
}

static MPI_Datatype indexed(void)
{
    static int lengths[DATA_BYTES / sizeof(double)], places[DATA_BYTES / sizeof(double)];
    int blocks = 0, left = DATA_BYTES / sizeof(double), place = 0;
    unsigned random = 12345;
    MPI_Datatype type;
    while (left > 0) {
        random = random * 1664525u + 1013904223u;
        int length = 1 + (int)(random >> 29);
        lengths[blocks] = length < left ? length : left;
        places[blocks] = place;
        /* The same mean gap as in the vectors. */
        place += lengths[blocks] + 1 + (int)(random >> 26) % 8;
        left -= lengths[blocks++];
    }
    MPI_Type_indexed(blocks, lengths, places, MPI_DOUBLE, &type);
    return committed(type);
}

static MPI_Datatype record(void)
{
    MPI_Datatype packed, type;
    MPI_Type_create_struct(3, (int[]){1, 3, 1},
                           (MPI_Aint[]){offsetof(struct record, first), offsetof(struct record, middle),
                                        offsetof(struct record, last)},
                           (MPI_Datatype[]){MPI_INT, MPI_DOUBLE, MPI_INT}, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct record), &type);
    MPI_Type_free(&packed);
    return committed(type);
}

static void pack(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        int position = 0;
        MPI_Pack(w->memory, w->layout->count, w->layout->type, w->packed, (int)DATA_BYTES, &position,
                 MPI_COMM_WORLD);
    }
}

static void unpack(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        int position = 0;
        MPI_Unpack(w->packed, (int)DATA_BYTES, &position, w->memory, w->layout->count, w->layout->type,
                   MPI_COMM_WORLD);
    }
}

static void ping_pong(void *context, int repetitions)
{
    struct work *w = context;
    struct layout *l = w->layout;
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) {
            MPI_Send(w->memory, l->count, l->type, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(w->memory, l->count, l->type, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(w->memory, l->count, l->type, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(w->memory, l->count, l->type, 0, 7, MPI_COMM_WORLD);
        }
    }
}

static void fill(char *memory, size_t bytes, unsigned mark)
{
    for (size_t i = 0; i < bytes; i++) memory[i] = (char)(mark * 31 + i * 7 + i / 256);
}

/* The packed stream of memory filled with `mark`, and whether the memory's own is that. */
static void check(struct work *w, unsigned mark, const char *what)
{
    struct work expected = {w->layout, bench_buffer(w->layout->span), bench_buffer(DATA_BYTES)};
    fill(expected.memory, w->layout->span, mark);
    pack(&expected, 1);
    pack(w, 1);
    if (memcmp(expected.packed, w->packed, DATA_BYTES)) {
        fprintf(stderr, "%s of %s: rank %d has wrong data\n", what, w->layout->name, bench_rank);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    free(expected.memory);
    free(expected.packed);
}

static void result(const char *what, const struct layout *layout, double seconds)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", what, layout->name);
    bench_result(name, DATA_BYTES, seconds * 1e6, "us");
}

static void measure(struct layout *layout)
{
    struct work w = {layout, bench_buffer(layout->span), bench_buffer(DATA_BYTES)};
    fill(w.memory, layout->span, 0);
    result("pack", layout, bench_measure(pack, &w));
    memset(w.memory, 0, layout->span);
    result("unpack", layout, bench_measure(unpack, &w));
    check(&w, 0, "unpack");
    fill(w.memory, layout->span, bench_rank == 0 ? 5 : 9);
    result("pingpong", layout, bench_measure(ping_pong, &w) / 2);
    check(&w, 5, "ping-pong");
    free(w.memory);
    free(w.packed);
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct layout layouts[] = {
        {"vector8", vector(1), 1, 0},   {"vector256", vector(32), 1, 0},
        {"subarray", subarray(), 1, 0}, {"indexed", indexed(), 1, 0},
        {"struct", record(), (int)(DATA_BYTES / (2 * sizeof(int) + 3 * sizeof(double))), 0},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        MPI_Aint lower, extent;
        MPI_Type_get_extent(layouts[i].type, &lower, &extent);
        layouts[i].span = (size_t)extent * (size_t)layouts[i].count;
        measure(&layouts[i]);
        MPI_Type_free(&layouts[i].type);
    }
    MPI_Finalize();
    return 0;
}
