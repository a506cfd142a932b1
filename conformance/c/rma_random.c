/* One-sided operations at random, on several windows at once, in epochs of all kinds, with types that have
 * gaps, negative displacements and other orders at both ends: memory and results against a model.
 *
 *     rma_random [SEED [ROUNDS]]      7 and 40 by default; a failure names the round
 *
 * Neither MPICH 5.0.2 (an assertion of its own about a lock) nor Open MPI 5.0.11 (other results of
 * accumulates, an error of MPI_Win_detach) passes.
 */
#include "check.h"
#include <stdbool.h>

enum { WINDOWS = 3, OPS_MAX = 64, MEMBERS_MAX = 16, SLOTS_EACH = 2 };
enum { CREATE, ALLOCATE, SHARED, DYNAMIC, FLAVORS };
enum { FENCE, GROUPS, LOCKS, LOCK_ALL, EPOCHS };
enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, SWAP, KINDS };
enum { NUMBER, FLOATING, COMPLEX, BITS, LOGICAL, PAIR };

struct element {
    MPI_Datatype type;
    int bytes, class;
};

struct pair {
    double value;
    int index;
};

/* Elements of a type with `count` of `type` at `at[0]`, `at[1]`, ... */
struct layout {
    int *at, low, high;
    int type_count;
    MPI_Datatype type;
    bool is_made;
};

struct window {
    MPI_Win win;
    int flavor, size, rank, slots, elements, epoch;
    struct element element;
    unsigned char *memory, *model[MEMBERS_MAX];
    MPI_Aint bytes[MEMBERS_MAX], bases[MEMBERS_MAX];
    int units[MEMBERS_MAX];
    bool reaches[MEMBERS_MAX][MEMBERS_MAX];
    int was[MEMBERS_MAX][MEMBERS_MAX * SLOTS_EACH + 1];
};

struct operation {
    int kind, target, count, window;
    struct layout here, result, there;
    unsigned char *in, *old, *expected;
    MPI_Request request;
};

static uint64_t shared;
static int round_number, ops_count;
static struct window windows[WINDOWS];
static struct operation ops[OPS_MAX];

static int below(int bound)
{
    shared = shared * 6364136223846793005u + 1442695040888963407u;
    return (int)((shared >> 33) % (uint64_t)bound);
}

static struct element draw_element(void)
{
    const struct element all[] = {
        {MPI_UINT8_T, 1, NUMBER},  {MPI_INT16_T, 2, NUMBER},         {MPI_INT, 4, NUMBER},
        {MPI_UINT32_T, 4, NUMBER}, {MPI_INT64_T, 8, NUMBER},         {MPI_FLOAT, 4, FLOATING},
        {MPI_DOUBLE, 8, FLOATING}, {MPI_C_DOUBLE_COMPLEX, 16, COMPLEX}, {MPI_BYTE, 1, BITS},
        {MPI_C_BOOL, 1, LOGICAL},  {MPI_DOUBLE_INT, 16, PAIR},       {MPI_AINT, 8, NUMBER},
    };
    return all[below(sizeof all / sizeof *all)];
}

static void give_value(const struct element *of, void *memory, int value)
{
    struct pair pair = {value, value % 5};
    float single = (float)value;
    double parts[2] = {value, value % 7};
    int64_t number = of->class == LOGICAL ? value % 2 : value;
    switch (of->class) {
    case FLOATING:
        if (of->bytes == 4) memcpy(memory, &single, 4);
        else memcpy(memory, parts, 8);
        break;
    case COMPLEX: memcpy(memory, parts, 16); break;
    case PAIR: memcpy(memory, &pair, sizeof pair); break;
    default: memcpy(memory, &number, (size_t)of->bytes); /* little-endian */
    }
}

static bool is_same(const struct element *of, const void *a, const void *b)
{
    return !memcmp(a, b, of->class == PAIR ? 12 : (size_t)of->bytes);
}

/* An operation of the element's; the first is one that gives the same in any order. */
static MPI_Op operation_of(const struct element *of, int number)
{
    const MPI_Op numbers[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BXOR, MPI_BOR, MPI_LAND, MPI_REPLACE};
    const MPI_Op floats[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_REPLACE};
    const MPI_Op pairs[] = {MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE};
    const MPI_Op bits[] = {MPI_BXOR, MPI_BAND, MPI_BOR, MPI_REPLACE};
    const MPI_Op logicals[] = {MPI_LXOR, MPI_LAND, MPI_LOR, MPI_REPLACE};
    switch (of->class) {
    case NUMBER: return numbers[number % (of->type == MPI_AINT ? 3 : 7)];
    case FLOATING: return floats[number % 4];
    case COMPLEX: return number % 2 ? MPI_REPLACE : MPI_SUM;
    case PAIR: return pairs[number % 3];
    case BITS: return bits[number % 4];
    default: return logicals[number % 4];
    }
}

/* `target[i] = target[i] op origin[i]`, for one element. */
static void reduce(const struct element *of, const void *origin, void *target, MPI_Op op)
{
    if (op == MPI_NO_OP) return;
    if (op == MPI_REPLACE) memcpy(target, origin, (size_t)of->bytes);
    else OK(MPI_Reduce_local(origin, target, 1, of->type, op));
}

/* The type of a layout whose places are known, by `kind`. */
static void make_type(struct layout *l, int kind, int n, const struct element *of)
{
    MPI_Datatype inner;
    int *one = check_alloc((size_t)n * sizeof *one);
    MPI_Aint *places = check_alloc((size_t)n * sizeof *places), extent = of->bytes;
    for (int i = 0; i < n; i++) one[i] = 1, places[i] = l->at[i] * extent;
    l->type_count = 1, l->is_made = kind > 0;
    switch (kind) {
    case 0: l->type = of->type, l->type_count = n; break;
    case 1: OK(MPI_Type_vector(n, 1, 2, of->type, &l->type)); break;
    case 2: OK(MPI_Type_create_indexed_block(n, 1, l->at, of->type, &l->type)); break;
    case 3: OK(MPI_Type_create_hindexed(n, one, places, of->type, &l->type)); break;
    case 4:
        OK(MPI_Type_create_resized(of->type, -extent, 2 * extent, &l->type));
        l->type_count = n;
        break;
    default:
        OK(MPI_Type_create_hindexed(2, one, places, of->type, &inner));
        OK(MPI_Type_create_resized(inner, 0, 2 * extent, &l->type));
        OK(MPI_Type_free(&inner));
        l->type_count = n / 2;
    }
    if (l->is_made) OK(MPI_Type_commit(&l->type));
    free(one), free(places);
}

/* Places for `n` elements, all apart; within 3 * `n` places. */
static struct layout draw_layout(int n, const struct element *of, bool is_mine)
{
    struct layout l = {.at = check_alloc((size_t)n * sizeof *l.at)};
    int kind = n ? below(6) : 0, step = 2 * below(8) + 1, room = 1;
    if (kind == 5 && n % 2) kind = 0;
    while (room < n) room *= 2;
    for (int i = 0; i < n; i++) {
        switch (kind) {
        case 0: l.at[i] = i; break;
        case 2: l.at[i] = i * step % room; break;
        case 3: l.at[i] = -1 - i; break;
        case 5: l.at[i] = i / 2 * 2 + 1 - i % 2; break;
        default: l.at[i] = 2 * i;
        }
        if (l.at[i] < l.low) l.low = l.at[i];
        if (l.at[i] > l.high) l.high = l.at[i];
    }
    if (is_mine) make_type(&l, kind, n, of);
    return l;
}

static void at_zero(struct layout *l)
{
    l->at[0] = l->low = l->high = 0;
}

static void end_layout(struct layout *l)
{
    if (l->is_made) OK(MPI_Type_free(&l->type));
    free(l->at);
}

static void make_memory(struct window *w, MPI_Comm comm, MPI_Info info)
{
    MPI_Aint bytes = w->bytes[w->rank], own = 0;
    int unit = w->units[w->rank];
    switch (w->flavor) {
    case CREATE:
        w->memory = check_alloc((size_t)bytes);
        OK(MPI_Win_create(bytes ? w->memory : NULL, bytes, unit, info, comm, &w->win));
        break;
    case ALLOCATE: OK(MPI_Win_allocate(bytes, unit, info, comm, &w->memory, &w->win)); break;
    case SHARED: OK(MPI_Win_allocate_shared(bytes, unit, info, comm, &w->memory, &w->win)); break;
    default:
        w->memory = check_alloc((size_t)bytes);
        OK(MPI_Win_create_dynamic(info, comm, &w->win));
        OK(MPI_Win_attach(w->win, w->memory, bytes));
        OK(MPI_Get_address(w->memory, &own));
    }
    OK(MPI_Allgather(&own, 1, MPI_AINT, w->bases, 1, MPI_AINT, comm));
}

static MPI_Comm draw_comm(int flavor)
{
    MPI_Comm comm;
    int way = below(3);
    if (flavor == SHARED)
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    else if (way == 0) OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm));
    else OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    return comm;
}

static void make_window(struct window *w)
{
    MPI_Info info;
    memset(w, 0, sizeof *w);
    w->flavor = below(FLAVORS), w->element = draw_element();
    w->elements = 16 << below(3);
    if (below(8) == 0) w->elements = 12000;
    MPI_Comm comm = draw_comm(w->flavor);
    OK(MPI_Comm_rank(comm, &w->rank));
    OK(MPI_Comm_size(comm, &w->size));
    w->slots = w->size * SLOTS_EACH + 1;
    for (int rank = 0; rank < check_size; rank++) {
        bool is_empty = below(6) == 0, has_unit = below(2);
        if (rank >= w->size) continue; /* all draw the same, whatever the size of their communicator */
        w->bytes[rank] = is_empty ? 0 : (MPI_Aint)w->slots * w->elements * w->element.bytes;
        w->units[rank] = w->flavor != DYNAMIC && has_unit ? w->element.bytes : 1;
    }
    OK(MPI_Info_create(&info));
    if (below(2)) OK(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
    make_memory(w, comm, below(2) ? info : MPI_INFO_NULL);
    OK(MPI_Info_free(&info));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win));
    for (int rank = 0; rank < w->size; rank++) {
        w->model[rank] = check_alloc((size_t)w->bytes[rank]);
        for (MPI_Aint i = 0; i < w->bytes[rank] / w->element.bytes; i++)
            give_value(&w->element, w->model[rank] + i * w->element.bytes, (int)(i * 7 + rank) % 16);
    }
    memcpy(w->memory ? w->memory : w->model[w->rank], w->model[w->rank], (size_t)w->bytes[w->rank]);
    OK(MPI_Win_unlock(w->rank, w->win));
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
}

static void end_window(struct window *w)
{
    if (w->flavor == DYNAMIC && below(2)) OK(MPI_Win_detach(w->win, w->memory));
    OK(MPI_Win_free(&w->win));
    if (w->flavor == CREATE || w->flavor == DYNAMIC) free(w->memory);
    for (int rank = 0; rank < w->size; rank++) free(w->model[rank]);
}

/* Those whom `rank` reaches (`forth`), or who reach it. */
static MPI_Group group_of(const struct window *w, int rank, bool forth)
{
    MPI_Group all, some;
    int ranks[MEMBERS_MAX], n = 0;
    for (int other = 0; other < w->size; other++)
        if (forth ? w->reaches[rank][other] : w->reaches[other][rank]) ranks[n++] = other;
    OK(MPI_Win_get_group(w->win, &all));
    OK(MPI_Group_incl(all, n, ranks, &some));
    OK(MPI_Group_free(&all));
    return some;
}

/* Draws an epoch, whose locks are exclusive only if no other is open, and begins it. */
static void begin_epoch(struct window *w, bool is_alone)
{
    int density = below(3), type = MPI_LOCK_SHARED;
    w->epoch = below(EPOCHS);
    if (below(2) && is_alone) type = MPI_LOCK_EXCLUSIVE;
    memset(w->was, -1, sizeof w->was);
    for (int i = 0; i < check_size; i++)
        for (int j = 0; j < check_size; j++) {
            bool reaches = below(3) >= density;
            w->reaches[i][j] = reaches || w->epoch == FENCE || w->epoch == LOCK_ALL;
        }
    if (w->epoch == FENCE) OK(MPI_Win_fence(0, w->win));
    if (w->epoch == GROUPS) {
        MPI_Group targets = group_of(w, w->rank, true), origins = group_of(w, w->rank, false);
        OK(MPI_Win_post(origins, 0, w->win));
        OK(MPI_Win_start(targets, 0, w->win));
        OK(MPI_Group_free(&targets));
        OK(MPI_Group_free(&origins));
    }
    if (w->epoch == LOCK_ALL) OK(MPI_Win_lock_all(0, w->win));
    if (w->epoch != LOCKS) return;
    for (int rank = 0; rank < w->size; rank++)
        if (w->reaches[w->rank][rank]) OK(MPI_Win_lock(type, rank, 0, w->win));
}

static void end_epoch(struct window *w)
{
    int flag = 0;
    if (w->epoch == FENCE) OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    if (w->epoch == GROUPS) {
        OK(MPI_Win_complete(w->win));
        if (below(2)) OK(MPI_Win_wait(w->win));
        else
            while (!flag) OK(MPI_Win_test(w->win, &flag));
    }
    if (w->epoch == LOCK_ALL) OK(MPI_Win_unlock_all(w->win));
    if (w->epoch != LOCKS) return;
    for (int rank = w->size - 1; rank >= 0; rank--)
        if (w->reaches[w->rank][rank]) OK(MPI_Win_unlock(rank, w->win));
}

/* Calls the operation. With `later`, it has a request. */
static void start(struct operation *o, MPI_Op op, MPI_Aint disp, bool later)
{
    const struct window *w = &windows[o->window];
    const struct layout *h = &o->here, *r = &o->result, *t = &o->there;
    unsigned char *in = o->in - h->low * w->element.bytes, *old = o->old - r->low * w->element.bytes;
    MPI_Request *request = &o->request;
    MPI_Win win = w->win;
    int to = o->target;
#define THERE to, disp, t->type_count, t->type
    switch (o->kind) {
    case PUT:
        if (later) OK(MPI_Rput(in, h->type_count, h->type, THERE, win, request));
        else OK(MPI_Put(in, h->type_count, h->type, THERE, win));
        break;
    case GET:
        if (later) OK(MPI_Rget(old, r->type_count, r->type, THERE, win, request));
        else OK(MPI_Get(old, r->type_count, r->type, THERE, win));
        break;
    case ACCUMULATE:
        if (later) OK(MPI_Raccumulate(in, h->type_count, h->type, THERE, op, win, request));
        else OK(MPI_Accumulate(in, h->type_count, h->type, THERE, op, win));
        break;
    case GET_ACCUMULATE: {
        int count = op == MPI_NO_OP ? 0 : h->type_count;
        MPI_Datatype type = op == MPI_NO_OP ? MPI_INT : h->type;
        if (op == MPI_NO_OP) in = NULL;
        if (later)
            OK(MPI_Rget_accumulate(in, count, type, old, r->type_count, r->type, THERE, op, win, request));
        else OK(MPI_Get_accumulate(in, count, type, old, r->type_count, r->type, THERE, op, win));
        break;
    }
    case FETCH: OK(MPI_Fetch_and_op(in, old, w->element.type, to, disp, op, win)); break;
    default: OK(MPI_Compare_and_swap(in, in + w->element.bytes, old, w->element.type, to, disp, win));
    }
#undef THERE
}

/* What an operation does to the model, and what it must find there. */
static void model_operation(struct operation *o, MPI_Op op, int first, uint32_t name)
{
    struct window *w = &windows[o->window];
    const struct element *of = &w->element;
    const int size = of->bytes;
    for (int i = 0; i < o->count; i++) {
        unsigned char *target = w->model[o->target] + (MPI_Aint)(first + o->there.at[i]) * size;
        unsigned char value[16] = {0};
        if (o->expected) memcpy(o->expected + i * size, target, (size_t)size);
        give_value(of, value, (int)((name + (uint32_t)i * 13u) % 16u));
        int here = o->here.at[i] - o->here.low;
        if (o->in && o->kind != GET) memcpy(o->in + here * size, value, (size_t)size);
        if (o->kind == SWAP) {
            unsigned char compare[16] = {0};
            give_value(of, compare, (int)(name % 3 ? name % 16u : 3));
            if (name % 2) memcpy(compare, target, (size_t)size);
            if (o->in) memcpy(o->in + size, compare, (size_t)size);
            if (!memcmp(target, compare, (size_t)size)) memcpy(target, value, (size_t)size);
        } else if (o->kind != GET) reduce(of, value, target, o->kind == PUT ? MPI_REPLACE : op);
    }
}

/* Whether an operation may follow what its origin did to the slot since the last flush. */
static bool may_follow(int was, int now)
{
    return was == -1 || (was == now && now != PUT);
}

static bool is_swappable(const struct element *of)
{
    return of->class == NUMBER || of->class == BITS || of->class == LOGICAL;
}

/* Draws one operation of a member of a window, and starts it if that is this process. */
static void one_operation(int at, int origin)
{
    struct window *w = &windows[at];
    struct operation o = {.window = at, .kind = below(KINDS), .target = below(check_size)};
    const int size = w->element.bytes;
    int number = below(7), slot = below(SLOTS_EACH), most = w->elements / 3, name = below(1 << 20);
    int place = below(1 << 20), flushes = below(3), is_fought = below(5) == 0, has_request = below(2);
    bool is_mine = origin == w->rank, is_noop = below(4) == 0;
    o.count = below(5) ? 1 + below(most < 12 ? most : 12) : below(most + 1);
    if (o.kind == SWAP && !is_swappable(&w->element)) o.kind = FETCH;
    if (o.kind == FETCH || o.kind == SWAP) o.count = 1;
    if (is_fought) o.kind = ACCUMULATE, number = 0, is_noop = false;
    o.here = draw_layout(o.count, &w->element, is_mine);
    o.result = draw_layout(o.count, &w->element, is_mine);
    o.there = draw_layout(o.count, &w->element, is_mine);
    if (o.kind == FETCH || o.kind == SWAP) at_zero(&o.here), at_zero(&o.result), at_zero(&o.there);
    bool is_possible = o.target < w->size && origin < w->size && w->reaches[origin][o.target];
    is_possible = is_possible && w->bytes[o.target];
    slot = is_fought ? w->slots - 1 : origin * SLOTS_EACH + slot;
    if (is_possible && !is_fought) {
        int *was = &w->was[o.target][slot];
        int now = o.kind == GET || o.kind == PUT || o.kind == SWAP ? o.kind : 100 + number;
        bool is_passive = w->epoch == LOCKS || w->epoch == LOCK_ALL, may = may_follow(*was, now);
        if (!may && is_passive && is_mine) {
            if (flushes == 0) OK(MPI_Win_flush_local_all(w->win));
            if (flushes < 2) OK(MPI_Win_flush(o.target, w->win));
            else OK(MPI_Win_flush_all(w->win));
        }
        is_possible = may || is_passive;
        if (is_possible) *was = now;
    }
    if (!is_possible) {
        end_layout(&o.here), end_layout(&o.result), end_layout(&o.there);
        return;
    }
    MPI_Op op = is_noop && o.kind != ACCUMULATE ? MPI_NO_OP : operation_of(&w->element, number);
    int room = w->elements - (o.there.high - o.there.low);
    int first = slot * w->elements + place % room - o.there.low;
    if (is_mine) {
        size_t bytes = (size_t)(4 * o.count + 4) * (size_t)size;
        o.in = check_alloc(bytes), o.old = check_alloc(bytes), o.expected = check_alloc(bytes);
        o.request = MPI_REQUEST_NULL;
    }
    model_operation(&o, op, first, (uint32_t)name);
    if (is_mine) {
        MPI_Aint disp = (MPI_Aint)first * size / w->units[o.target] + w->bases[o.target];
        bool is_passive = w->epoch == LOCKS || w->epoch == LOCK_ALL;
        start(&o, op, disp, has_request && is_passive);
        ops[ops_count++] = o;
    } else end_layout(&o.here), end_layout(&o.result), end_layout(&o.there);
}

static void check_operation(struct operation *o)
{
    const struct window *w = &windows[o->window];
    const int size = w->element.bytes;
    OK(MPI_Wait(&o->request, MPI_STATUS_IGNORE));
    for (int i = 0; i < o->count && o->kind != PUT && o->kind != ACCUMULATE; i++) {
        const unsigned char *old = o->old + (o->result.at[i] - o->result.low) * size;
        if (is_same(&w->element, old, o->expected + i * size)) continue;
        CHECK(0, "round %d: result %d of operation %d on flavor %d, epoch %d, element class %d of %d bytes",
              round_number, i, o->kind, w->flavor, w->epoch, w->element.class, size);
        break;
    }
    free(o->in), free(o->old), free(o->expected);
    end_layout(&o->here), end_layout(&o->result), end_layout(&o->there);
}

static void check_memory(const struct window *w)
{
    const int size = w->element.bytes;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, w->rank, 0, w->win));
    for (MPI_Aint i = 0; i < w->bytes[w->rank] / size; i++) {
        if (is_same(&w->element, w->memory + i * size, w->model[w->rank] + i * size)) continue;
        CHECK(0, "round %d: element %d (slots of %d) of flavor %d, epoch %d, class %d of %d bytes",
              round_number, (int)i, w->elements, w->flavor, w->epoch, w->element.class, size);
        break;
    }
    OK(MPI_Win_unlock(w->rank, w->win));
}

/* Epochs on one window, or on all of them at the same time. */
static void one_round(void)
{
    int first = below(WINDOWS), count = below(2) ? 1 : WINDOWS, turn = below(2);
    ops_count = 0;
    for (int i = 0; i < count; i++) begin_epoch(&windows[(first + i) % WINDOWS], count == 1);
    for (int i = 0; i < OPS_MAX; i++) {
        int at = (first + below(count)) % WINDOWS, origin = below(check_size);
        one_operation(at, origin);
    }
    int is_early = below(2);
    for (int i = 0; i < ops_count && is_early; i++)
        if (i % 2) OK(MPI_Wait(&ops[i].request, MPI_STATUS_IGNORE));
    for (int i = 0; i < count; i++) end_epoch(&windows[(first + (turn ? i : count - 1 - i)) % WINDOWS]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) check_memory(&windows[(first + i) % WINDOWS]);
    for (int i = 0; i < ops_count; i++) check_operation(&ops[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (below(3) == 0) end_window(&windows[first]), make_window(&windows[first]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int rounds = argc > 2 ? atoi(argv[2]) : 40;
    shared = argc > 1 ? strtoull(argv[1], NULL, 0) : 7;
    if (check_size > MEMBERS_MAX) rounds = 0;
    for (int i = 0; i < WINDOWS; i++) make_window(&windows[i]);
    for (round_number = 0; round_number < rounds && check_errors == 0; round_number++) one_round();
    for (int i = 0; i < WINDOWS; i++) end_window(&windows[i]);
    return check_end();
}
