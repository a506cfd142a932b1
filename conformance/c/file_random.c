/* Accesses to a file at random, of all kinds and several under way at once, through views with holes and
 * types with gaps: the file and what is read from it are compared with a model in memory.
 *
 *     file_random [SEED [ROUNDS]]      7 and 30 by default; a failure names the round
 *
 * MPICH 5.0.2 and Open MPI 5.0.11 do not pass: they count reads past the end of the file, or of no elements,
 * wrongly, and fail on filetypes without data and on external32.
 */
#include "file.h"
#include <stdbool.h>

enum { RANKS_MAX = 16, OPS_MAX = 8, TILE_MAX = 64, MODEL = 1 << 20, REGION = 400 };
enum { AT, AT_ALL, OWN, ALL, I_AT, I_AT_ALL, I_OWN, I_ALL, SPLIT_AT, SPLIT_ALL, OWN_KINDS };
enum { ORDERED = OWN_KINDS, SPLIT_ORDERED, SHARED, I_SHARED, KINDS };
enum { CYCLIC, COLUMNS, SCATTERED, COMMON, WHOLE, VIEWS };

/* A view: etype `k` of a rank is at `disp + (k / n * tile + at[k % n]) * etype_bytes`. */
struct view {
    MPI_Datatype basic, etype;
    int basic_bytes, etype_bytes, basics, tile, kind;
    bool is_swapped, is_common;
    MPI_Offset disp;
    const char *representation;
    int n[RANKS_MAX], at[RANKS_MAX][TILE_MAX];
};

struct access {
    int kind, etypes;
    bool is_write;
    MPI_Offset offset;
    unsigned char *memory, *base;
    int *places, count, low, high;
    MPI_Datatype type;
    bool is_made;
    MPI_Request request;
    MPI_Status status;
};

static uint64_t shared;
static int round_number, accesses_count;
static struct access accesses[OPS_MAX];
static unsigned char model[MODEL];
static bool is_known[MODEL];
static MPI_Offset model_size, position[RANKS_MAX], fresh[RANKS_MAX], shared_position;
static struct view view;
static MPI_File file;

static int below(int bound)
{
    shared = shared * 6364136223846793005u + 1442695040888963407u;
    return (int)((shared >> 33) % (uint64_t)bound);
}

static MPI_Offset place_of(int rank, MPI_Offset k)
{
    int n = view.n[rank];
    return view.disp + (k / n * view.tile + view.at[rank][k % n]) * view.etype_bytes;
}

/* Which of the tile's etypes are whose. */
static void draw_owners(int block, int columns, uint32_t name)
{
    memset(view.n, 0, sizeof view.n);
    for (int i = 0; i < view.tile; i++) {
        int owner = -1;
        uint32_t hash = (name + (uint32_t)i * 2654435761u) >> 7;
        switch (view.kind) {
        case CYCLIC: owner = i / block % check_size; break;
        case COLUMNS: owner = i % (columns * check_size + 1) / columns; break;
        case SCATTERED: owner = (int)(hash % (uint32_t)(check_size + 1)); break;
        }
        for (int rank = 0; rank < check_size; rank++) {
            bool is_there = view.is_common ? view.kind == WHOLE || hash % 3 || i == 0 : owner == rank;
            if (is_there) view.at[rank][view.n[rank]++] = i;
        }
    }
}

/* The filetype of this rank. */
static MPI_Datatype make_filetype(int block, int columns)
{
    MPI_Datatype list, type;
    int rows = view.tile / (columns * check_size + 1);
    int sizes[2] = {rows, columns * check_size + 1}, parts[2] = {rows, columns};
    int begins[2] = {0, columns * check_rank};
    int distribution = MPI_DISTRIBUTE_CYCLIC;
    MPI_Aint extent = (MPI_Aint)view.tile * view.etype_bytes, lowest, etype_extent;
    if (view.kind == CYCLIC)
        OK(MPI_Type_create_darray(check_size, check_rank, 1, &view.tile, &distribution, &block, &check_size,
                                  MPI_ORDER_C, view.etype, &type));
    else if (view.kind == COLUMNS)
        OK(MPI_Type_create_subarray(2, sizes, parts, begins, MPI_ORDER_C, view.etype, &type));
    else {
        OK(MPI_Type_create_indexed_block(view.n[check_rank], 1, view.at[check_rank], view.etype, &list));
        OK(MPI_Type_get_extent(view.etype, &lowest, &etype_extent));
        CHECK(etype_extent * view.tile == extent, "the extent of an etype");
        OK(MPI_Type_create_resized(list, 0, extent, &type));
        OK(MPI_Type_free(&list));
    }
    OK(MPI_Type_commit(&type));
    return type;
}

static MPI_Info draw_hints(void)
{
    const char *const switches[] = {"enable", "disable", "automatic"};
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", switches[below(3)]));
    OK(MPI_Info_set(info, "romio_cb_read", switches[below(3)]));
    OK(MPI_Info_set(info, "romio_ds_write", switches[below(3)]));
    OK(MPI_Info_set(info, "romio_ds_read", switches[below(3)]));
    if (below(2)) OK(MPI_Info_set(info, "cb_buffer_size", below(2) ? "1000" : "4096"));
    if (below(2)) OK(MPI_Info_set(info, "ind_wr_buffer_size", "300"));
    if (below(2)) OK(MPI_Info_set(info, "ind_rd_buffer_size", "100"));
    if (below(2)) OK(MPI_Info_set(info, "cb_nodes", "1"));
    return info;
}

static void set_view(void)
{
    const MPI_Datatype basics[] = {MPI_BYTE, MPI_INT16_T, MPI_INT, MPI_DOUBLE, MPI_INT64_T};
    const int bytes[] = {1, 2, 4, 8, 8};
    const char *const representations[] = {"native", "internal", "external32"};
    int basic = below(5), representation = below(3), block = 1 + below(3), columns = 1 + below(3);
    int name = below(1 << 20);
    MPI_Info info = draw_hints();
    view.kind = below(VIEWS), view.is_common = view.kind == COMMON || view.kind == WHOLE;
    view.basic = basics[basic], view.basic_bytes = bytes[basic], view.basics = below(2) ? 1 : 3;
    view.etype_bytes = view.basic_bytes * view.basics, view.disp = below(50);
    view.representation = representations[representation], view.is_swapped = representation == 2;
    view.tile = view.kind == COLUMNS ? (columns * check_size + 1) * 2 : 20 + below(20);
    if (view.tile > TILE_MAX) view.kind = CYCLIC, view.tile = TILE_MAX;
    draw_owners(block, columns, (uint32_t)name);
    if (view.basics == 1) view.etype = view.basic;
    else OK(MPI_Type_contiguous(view.basics, view.basic, &view.etype));
    if (view.basics > 1) OK(MPI_Type_commit(&view.etype));
    MPI_Datatype filetype = view.kind == WHOLE ? view.etype : make_filetype(block, columns);
    OK(MPI_File_set_view(file, view.disp, view.etype, filetype, view.representation, info));
    OK(MPI_Info_free(&info));
    if (view.kind != WHOLE) OK(MPI_Type_free(&filetype));
    if (view.basics > 1) OK(MPI_Type_free(&view.etype));
    for (int rank = 0; rank < check_size; rank++)
        position[rank] = 0, fresh[rank] = view.is_common ? rank * REGION : 0;
    shared_position = 0;
}

/* Memory for an access' elements, in a layout with gaps or in another order. */
static void draw_memory(struct access *a, int kind)
{
    int n = a->count = a->etypes * view.basics, *one = check_alloc((size_t)n * sizeof *one);
    MPI_Aint *bytes = check_alloc((size_t)n * sizeof *bytes), extent = view.basic_bytes;
    a->places = check_alloc((size_t)n * sizeof *a->places);
    for (int i = 0; i < n; i++) {
        a->places[i] = kind == 0 ? i : kind == 1 ? -1 - i : 2 * i;
        if (a->places[i] < a->low) a->low = a->places[i];
        if (a->places[i] > a->high) a->high = a->places[i];
        one[i] = 1, bytes[i] = a->places[i] * extent;
    }
    a->memory = check_alloc((size_t)(a->high - a->low + 1) * (size_t)extent);
    a->base = a->memory - a->low * extent;
    a->is_made = kind > 0, a->type = view.basic;
    if (kind == 1) OK(MPI_Type_create_hindexed(n, one, bytes, view.basic, &a->type));
    if (kind == 2) OK(MPI_Type_create_resized(view.basic, -extent, 2 * extent, &a->type));
    if (kind == 3) OK(MPI_Type_vector(n, 1, 2, view.basic, &a->type));
    if (kind == 1 || kind == 3) a->count = 1;
    if (a->is_made) OK(MPI_Type_commit(&a->type));
    free(one), free(bytes);
}

#define ACCESS(name, ...) \
    (a->is_write ? MPI_File_write##name(__VA_ARGS__) : MPI_File_read##name(__VA_ARGS__))
#define LATER(name, ...) \
    (a->is_write ? MPI_File_iwrite##name(__VA_ARGS__) : MPI_File_iread##name(__VA_ARGS__))

static void start(struct access *a)
{
    MPI_Status *s = &a->status;
    MPI_Request *r = &a->request;
    void *memory = a->base;
    int n = a->count;
    switch (a->kind) {
    case AT: OK(ACCESS(_at, file, a->offset, memory, n, a->type, s)); break;
    case AT_ALL: OK(ACCESS(_at_all, file, a->offset, memory, n, a->type, s)); break;
    case OWN: OK(ACCESS(, file, memory, n, a->type, s)); break;
    case ALL: OK(ACCESS(_all, file, memory, n, a->type, s)); break;
    case I_AT: OK(LATER(_at, file, a->offset, memory, n, a->type, r)); break;
    case I_AT_ALL: OK(LATER(_at_all, file, a->offset, memory, n, a->type, r)); break;
    case I_OWN: OK(LATER(, file, memory, n, a->type, r)); break;
    case I_ALL: OK(LATER(_all, file, memory, n, a->type, r)); break;
    case SPLIT_AT:
        OK(ACCESS(_at_all_begin, file, a->offset, memory, n, a->type));
        OK(ACCESS(_at_all_end, file, memory, s));
        break;
    case SPLIT_ALL:
        OK(ACCESS(_all_begin, file, memory, n, a->type));
        OK(ACCESS(_all_end, file, memory, s));
        break;
    case ORDERED: OK(ACCESS(_ordered, file, memory, n, a->type, s)); break;
    case SPLIT_ORDERED:
        OK(ACCESS(_ordered_begin, file, memory, n, a->type));
        OK(ACCESS(_ordered_end, file, memory, s));
        break;
    case SHARED: OK(ACCESS(_shared, file, memory, n, a->type, s)); break;
    default: OK(LATER(_shared, file, memory, n, a->type, r));
    }
}

/* Byte `b` of basic element `i` of an access, as it is in the file. */
static MPI_Offset byte_of(const struct access *a, int rank, int i, int b)
{
    int in_file = view.is_swapped ? view.basic_bytes - 1 - b : b;
    MPI_Offset etype = a->offset + i / view.basics;
    return place_of(rank, etype) + i % view.basics * view.basic_bytes + in_file;
}

/* What a write does to the model, and (`memory`) the data that it writes. */
static void model_write(struct access *a, int rank, uint32_t name)
{
    for (int i = 0; i < a->etypes * view.basics; i++)
        for (int b = 0; b < view.basic_bytes; b++) {
            unsigned char value = pattern_byte(name + (uint32_t)rank, (size_t)(i * 8 + b));
            MPI_Offset at = byte_of(a, rank, i, b);
            if (at >= MODEL) {
                CHECK(0, "round %d: the model is too small", round_number);
                return;
            }
            model[at] = value, is_known[at] = true;
            if (at >= model_size) model_size = at + 1;
            if (a->base) a->base[a->places[i] * view.basic_bytes + b] = value;
        }
}

/* How many bytes of a read are there, and whether they are the model's. In another representation, whole
 * elements are converted. */
static MPI_Offset bytes_read(const struct access *a)
{
    MPI_Offset there = 0;
    for (int i = 0; i < a->etypes * view.basics; i++)
        for (int b = 0; b < view.basic_bytes; b++) {
            if (byte_of(a, check_rank, i, view.is_swapped ? 0 : b) >= model_size) return there;
            MPI_Offset at = byte_of(a, check_rank, i, b);
            unsigned char found = a->base[a->places[i] * view.basic_bytes + b];
            CHECK(!is_known[at] || found == model[at], "round %d: kind %d: byte %d of item %d is %d, not %d",
                  round_number, a->kind, b, i, found, model[at]);
            there++;
        }
    return there;
}

static void end_access(struct access *a)
{
    MPI_Status later;
    bool is_later = a->request != MPI_REQUEST_NULL;
    OK(MPI_Wait(&a->request, &later));
    MPI_Offset wanted = a->is_write ? a->etypes * view.etype_bytes : bytes_read(a);
    long moved = status_bytes(is_later ? &later : &a->status);
    CHECK(moved == (long)wanted, "round %d: %s %ld bytes, not %ld: kind %d, view %d (%s)", round_number,
          a->is_write ? "wrote" : "read", moved, (long)wanted, a->kind, view.kind, view.representation);
    if (a->is_made) OK(MPI_Type_free(&a->type));
    free(a->memory), free(a->places);
}

static void end_accesses(void)
{
    for (int i = accesses_count - 1; i >= 0; i--) end_access(&accesses[i]);
    accesses_count = 0;
}

/* Moves the individual pointer to where the next access of a rank may begin. */
static void place_pointer(int rank, MPI_Offset to, int way)
{
    int whence = way == 0 ? MPI_SEEK_SET : MPI_SEEK_CUR;
    if (rank == check_rank) OK(MPI_File_seek(file, way == 0 ? to : to - position[rank], whence));
    position[rank] = to;
}

/* One access of all ranks, each with its own count. */
static void one_access(bool is_write)
{
    int kind = below(view.is_common ? KINDS : OWN_KINDS), way = below(2), name = below(1 << 20);
    bool is_own = kind == OWN || kind == ALL || kind == I_OWN || kind == I_ALL || kind == SPLIT_ALL;
    struct access mine = {.kind = kind, .is_write = is_write, .request = MPI_REQUEST_NULL};
    if (kind >= ORDERED && shared_position == 0) {
        shared_position = (MPI_Offset)check_size * REGION;
        OK(MPI_File_seek_shared(file, shared_position, MPI_SEEK_SET));
    }
    for (int rank = 0; rank < check_size; rank++) {
        int etypes = below(4) ? below(30) : 0, layout = below(4), offset = below(40), moves = below(2);
        struct access other = {.kind = kind}, *a = rank == check_rank ? &mine : &other;
        MPI_Offset first = view.is_common ? (MPI_Offset)rank * REGION : 0;
        MPI_Offset to = is_write && accesses_count ? fresh[rank] + offset % 5 : first + offset;
        if (view.n[rank] == 0) etypes = 0;
        bool is_behind = position[rank] < (is_write ? fresh[rank] : first);
        if (is_own && (moves || is_behind)) place_pointer(rank, to, way);
        a->etypes = etypes;
        a->offset = is_own ? position[rank] : kind >= ORDERED ? shared_position : to;
        if (is_own) position[rank] += etypes;
        if (kind >= ORDERED) shared_position += etypes;
        else if (a->offset + etypes > fresh[rank]) fresh[rank] = a->offset + etypes;
        if (rank == check_rank) draw_memory(a, layout);
        if (is_write) model_write(a, rank, (uint32_t)name);
        if (rank == check_rank && kind != SHARED && kind != I_SHARED) continue;
        if (kind != SHARED && kind != I_SHARED) continue;
        if (rank == check_rank) start(a);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (kind != SHARED && kind != I_SHARED) start(&mine);
    accesses[accesses_count++] = mine;
}

static void check_file(const char *name)
{
    static unsigned char found[MODEL];
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(file));
    if (check_rank) return;
    long size = file_bytes(name, found, sizeof found);
    CHECK(size == (long)model_size, "round %d: the file has %ld bytes, not %ld", round_number, size,
          (long)model_size);
    for (long i = 0; i < size && i < (long)model_size; i++) {
        if (!is_known[i] || found[i] == model[i]) continue;
        CHECK(0, "round %d: byte %ld written through view %d (%s) is %d, not %d", round_number, i, view.kind,
              view.representation, found[i], model[i]);
        break;
    }
}

static void resize(void)
{
    MPI_Offset size = below(20000), found = -1;
    if (below(4)) return;
    if (below(3) == 0) {
        OK(MPI_File_preallocate(file, size));
        if (size < model_size) size = model_size;
    } else OK(MPI_File_set_size(file, size));
    for (MPI_Offset i = size; i < model_size; i++) is_known[i] = false;
    model_size = size;
    OK(MPI_File_get_size(file, &found));
    CHECK(found == size, "round %d: size %ld, not %ld", round_number, (long)found, (long)size);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void one_round(const char *name)
{
    bool is_write = below(2);
    MPI_Offset own = -1, byte = -1;
    resize();
    set_view();
    OK(MPI_File_set_atomicity(file, below(3) == 0));
    for (int i = 1 + below(OPS_MAX), waits = below(3); i > 0; i--) {
        one_access(is_write);
        if (!waits) end_accesses();
    }
    OK(MPI_File_get_position(file, &own));
    CHECK(own == position[check_rank], "round %d: pointer %ld, not %ld", round_number, (long)own,
          (long)position[check_rank]);
    if (view.n[check_rank]) {
        OK(MPI_File_get_byte_offset(file, own, &byte));
        CHECK(byte == place_of(check_rank, own), "round %d: byte offset %ld", round_number, (long)byte);
    }
    end_accesses();
    if (is_write) check_file(name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (below(4)) return;
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int rounds = argc > 2 ? atoi(argv[2]) : 30;
    shared = argc > 1 ? strtoull(argv[1], NULL, 0) : 7;
    const char *name = file_name("random");
    if (check_size > RANKS_MAX) rounds = 0;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (round_number = 0; round_number < rounds; round_number++) {
        int failed = check_errors, any = 0;
        OK(MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        if (any) break;
        one_round(name);
    }
    OK(MPI_File_close(&file));
    file_remove(name);
    return check_end();
}
