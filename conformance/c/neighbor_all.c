/* Collective operations among neighbours: all five in all six forms, on grids (periodic and not, of one and two
 * processes around), graphs and distributed graphs with several edges between two ranks and loops; types with and
 * without gaps, each block checked with what lies around it. */
#include "check.h"

#define DEGREE_MAX 40
#define BYTES_MAX 20000

/* MPI_UNWEIGHTED, of which the compiler does not know that nothing is there. */
int *unweighted = MPI_UNWEIGHTED;

enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, OPS };

/* The neighbours of this rank, and at which of its places the sender of each incoming block has it. */
static int in, out, sources[DEGREE_MAX], destinations[DEGREE_MAX], sent_at[DEGREE_MAX];
static MPI_Comm comm;
static const char *what;

/* A unit is three integers: in a row, or two apart. */
static MPI_Datatype units[2];
static const int unit_bytes[2] = {12, 24};

static unsigned char sendbuf[BYTES_MAX], recvbuf[BYTES_MAX];

/* Where the blocks of one side lie. */
struct side {
    int kind[DEGREE_MAX], counts[DEGREE_MAX], displs[DEGREE_MAX];
    MPI_Count counts_c[DEGREE_MAX];
    MPI_Aint displs_c[DEGREE_MAX], bytes[DEGREE_MAX];
    MPI_Datatype types[DEGREE_MAX];
};

/* Uniform blocks are in a row, others in the opposite order and with a unit between them. */
static void lay_out(struct side *side, int n, int uniform, int mixed, int kind, const int *counts)
{
    int at = 1;
    for (int i = n - 1; i >= 0; i--) {
        side->kind[i] = mixed ? (kind + i) % 2 : kind;
        side->counts[i] = counts[i];
        side->displs[i] = uniform ? i * counts[i] : at;
        at += counts[i] + 1;
        side->counts_c[i] = side->counts[i];
        side->displs_c[i] = side->displs[i];
        side->bytes[i] = (MPI_Aint)side->displs[i] * (mixed ? 24 : unit_bytes[kind]);
        side->types[i] = units[side->kind[i]];
    }
}

/* Integer `i` of the block that a rank sends at one of its places. */
static int value(int rank, int place, int round, int i) { return rank * 1000000 + place * 10000 + round * 5000 + i; }

static void put(unsigned char *at, int kind, int count, int rank, int place, int round)
{
    for (int i = 0; i < 3 * count; i++) {
        int v = value(rank, place, round, i);
        memcpy(at + i / 3 * unit_bytes[kind] + i % 3 * (kind ? 8 : 4), &v, 4);
    }
}

/* What this rank's receive buffer must hold: all else stays as it was. */
static void expect(unsigned char *wanted, const struct side *side, int gathers, int round)
{
    memset(wanted, 0xEE, BYTES_MAX);
    for (int i = 0; i < in; i++)
        if (sources[i] != MPI_PROC_NULL)
            put(wanted + side->bytes[i], side->kind[i], side->counts[i], sources[i], gathers ? 0 : sent_at[i], round);
}

#define FORM(op, ...) \
    (mode == 0   ? MPI_Neighbor_##op(__VA_ARGS__) \
     : mode == 1 ? MPI_Ineighbor_##op(__VA_ARGS__, &request) \
                 : MPI_Neighbor_##op##_init(__VA_ARGS__, MPI_INFO_NULL, &request))
#define FORM_C(op, ...) \
    (mode == 0   ? MPI_Neighbor_##op##_c(__VA_ARGS__) \
     : mode == 1 ? MPI_Ineighbor_##op##_c(__VA_ARGS__, &request) \
                 : MPI_Neighbor_##op##_init_c(__VA_ARGS__, MPI_INFO_NULL, &request))

static MPI_Request call(int op, int mode, int large, const struct side *s, const struct side *r)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype st = s->types[0], rt = r->types[0];
    int sc = s->counts[0], rc = r->counts[0];
    switch (op + OPS * large) {
    case ALLGATHER: OK(FORM(allgather, sendbuf, sc, st, recvbuf, rc, rt, comm)); break;
    case ALLGATHERV: OK(FORM(allgatherv, sendbuf, sc, st, recvbuf, r->counts, r->displs, rt, comm)); break;
    case ALLTOALL: OK(FORM(alltoall, sendbuf, sc, st, recvbuf, rc, rt, comm)); break;
    case ALLTOALLV:
        OK(FORM(alltoallv, sendbuf, s->counts, s->displs, st, recvbuf, r->counts, r->displs, rt, comm));
        break;
    case ALLTOALLW:
        OK(FORM(alltoallw, sendbuf, s->counts, s->bytes, s->types, recvbuf, r->counts, r->bytes, r->types, comm));
        break;
    case OPS + ALLGATHER: OK(FORM_C(allgather, sendbuf, sc, st, recvbuf, rc, rt, comm)); break;
    case OPS + ALLGATHERV:
        OK(FORM_C(allgatherv, sendbuf, sc, st, recvbuf, r->counts_c, r->displs_c, rt, comm));
        break;
    case OPS + ALLTOALL: OK(FORM_C(alltoall, sendbuf, sc, st, recvbuf, rc, rt, comm)); break;
    case OPS + ALLTOALLV:
        OK(FORM_C(alltoallv, sendbuf, s->counts_c, s->displs_c, st, recvbuf, r->counts_c, r->displs_c, rt, comm));
        break;
    case OPS + ALLTOALLW:
        OK(FORM_C(alltoallw, sendbuf, s->counts_c, s->bytes, s->types, recvbuf, r->counts_c, r->bytes, r->types, comm));
        break;
    }
    return request;
}

static int v_count(int rank, int place) { return (rank + 2 * place) % 4; }

static void one(int op, int mode, int large, int kinds)
{
    static unsigned char wanted[BYTES_MAX];
    struct side s, r;
    int counts[DEGREE_MAX], me, gathers = op == ALLGATHER || op == ALLGATHERV;
    int uniform = op == ALLGATHER || op == ALLTOALL, mixed = op == ALLTOALLW;
    MPI_Request request;
    OK(MPI_Comm_rank(comm, &me));
    for (int i = 0; i < DEGREE_MAX; i++) counts[i] = uniform ? 5 : v_count(me, gathers ? 0 : i);
    lay_out(&s, out ? out : 1, uniform, mixed, kinds % 2, counts);
    for (int i = 0; i < in; i++) counts[i] = uniform ? 5 : v_count(sources[i], gathers ? 0 : sent_at[i]);
    for (int i = 0; i < in; i++) if (sources[i] == MPI_PROC_NULL) counts[i] = uniform ? 5 : 2;
    lay_out(&r, in ? in : 1, uniform, mixed, kinds / 2, counts);
    for (int round = 0; round < (mode == 2 ? 2 : 1); round++) {
        memset(sendbuf, 0x77, sizeof sendbuf);
        memset(recvbuf, 0xEE, sizeof recvbuf);
        if (gathers) put(sendbuf, s.kind[0], s.counts[0], me, 0, round);
        for (int i = 0; !gathers && i < out; i++)
            put(sendbuf + s.bytes[i], s.kind[i], s.counts[i], me, i, round);
        if (round == 0) request = call(op, mode, large, &s, &r);
        if (mode == 2) OK(MPI_Start(&request));
        if (mode) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect(wanted, &r, gathers, round);
        long at = 0;
        while (at < BYTES_MAX && wanted[at] == recvbuf[at]) at++;
        CHECK(at == BYTES_MAX, "%s: operation %d, form %d, large %d, kinds %d, round %d: byte %ld is %d, not %d", what,
              op, mode, large, kinds, round, at, recvbuf[at], wanted[at]);
    }
    if (mode == 2) OK(MPI_Request_free(&request));
}

/* Of several blocks from one rank, the first sent is the first received. */
static void match_in_order(void)
{
    int size, all[64 * DEGREE_MAX], mine[DEGREE_MAX], me;
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &me));
    for (int i = 0; i < DEGREE_MAX; i++) mine[i] = i < out ? destinations[i] : -99;
    OK(MPI_Allgather(mine, DEGREE_MAX, MPI_INT, all, DEGREE_MAX, MPI_INT, comm));
    for (int i = 0; i < in; i++) {
        int before = 0, at = -1;
        for (int j = 0; j < i; j++) before += sources[j] == sources[i];
        for (int found = -1; found < before;) found += all[sources[i] * DEGREE_MAX + ++at] == me;
        sent_at[i] = at;
    }
}

static void exercise(const char *name)
{
    what = name;
    for (int op = 0; op < OPS; op++)
        for (int mode = 0; mode < 3; mode++)
            for (int large = 0; large < 2; large++)
                for (int kinds = 0; kinds < 4; kinds++) one(op, mode, large, kinds);
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
}

/* Below and above in each dimension; what goes up comes from below. */
static void grid(int n, const int *dims, const int *periods)
{
    int total = 1;
    for (int d = 0; d < n; d++) total *= dims[d];
    if (total > check_size) return;
    OK(MPI_Cart_create(MPI_COMM_WORLD, n, dims, periods, 0, &comm));
    if (comm == MPI_COMM_NULL) return;
    in = out = 2 * n;
    for (int d = 0; d < n; d++) OK(MPI_Cart_shift(comm, d, 1, &sources[2 * d], &sources[2 * d + 1]));
    for (int i = 0; i < in; i++) destinations[i] = sources[i], sent_at[i] = i ^ 1;
    exercise("grid");
}

static void ring_graph(void)
{
    int ends[64], edges[128], at = 0;
    for (int node = 0; node < check_size; node++) {
        edges[at++] = (node + 1) % check_size;
        edges[at++] = (node + check_size - 1) % check_size;
        ends[node] = at;
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, check_size, ends, edges, 0, &comm));
    in = out = 2;
    OK(MPI_Graph_neighbors(comm, check_rank, in, sources));
    memcpy(destinations, sources, sizeof sources);
    match_in_order();
    exercise("graph");
}

/* Zero to two edges between any two ranks, loops too; the lists in orders of their own. */
static void dist_graph(int loops_only)
{
    in = out = 0;
    for (int other = 0; other < check_size; other++) {
        int none = loops_only && other != check_rank, from = (other * 5 + check_rank * 3) % 3;
        for (int k = 0; !none && k < from; k++) sources[in++] = other;
    }
    for (int other = check_size - 1; other >= 0; other--) {
        int none = loops_only && other != check_rank, to = (check_rank * 5 + other * 3) % 3;
        for (int k = 0; !none && k < to; k++) destinations[out++] = other;
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, unweighted, out, destinations, unweighted,
                                      MPI_INFO_NULL, 0, &comm));
    match_in_order();
    exercise(loops_only ? "loops" : "distributed graph");
}

/* Blocks of 1 MiB around a ring, and two operations under way at once, started in another order than they were made. */
static void long_blocks(void)
{
    enum { N = 1 << 18 };
    int dims[1] = {check_size}, periods[1] = {1}, below, above, me;
    int *send = check_alloc(2 * N * sizeof *send), *recv[2] = {check_alloc(2 * N * sizeof(int)), check_alloc(2 * N * sizeof(int))};
    MPI_Request requests[2];
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Cart_shift(comm, 0, 1, &below, &above));
    for (int i = 0; i < 2 * N; i++) send[i] = me * 7 + i;
    OK(MPI_Neighbor_alltoall_init(send, N, MPI_INT, recv[0], N, MPI_INT, comm, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Neighbor_allgather_init(send, N, MPI_INT, recv[1], N, MPI_INT, comm, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Start(&requests[me % 2]));
    OK(MPI_Start(&requests[!(me % 2)]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++) {
        if (recv[0][i] == below * 7 + N + i && recv[0][N + i] == above * 7 + i && recv[1][i] == below * 7 + i
            && recv[1][N + i] == above * 7 + i) continue;
        CHECK(0, "element %d of long blocks is wrong", i);
        break;
    }
    for (int i = 0; i < 2; i++) OK(MPI_Request_free(&requests[i]));
    free(send), free(recv[0]), free(recv[1]);
    OK(MPI_Comm_free(&comm));
}

static void wrong(void)
{
    int a[4] = {0}, dims[1] = {1}, periods[1] = {1};
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Neighbor_allgather(a, 1, MPI_INT, a + 1, 1, MPI_INT, MPI_COMM_SELF), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoall(a, 1, MPI_INT, a + 1, 1, MPI_INT, MPI_COMM_NULL), MPI_ERR_COMM);
    OK(MPI_Cart_create(MPI_COMM_SELF, 1, dims, periods, 0, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    FAILS(MPI_Neighbor_allgather(a, -1, MPI_INT, a + 1, 1, MPI_INT, comm), MPI_ERR_COUNT);
    FAILS(MPI_Neighbor_alltoall(a, 1, MPI_DATATYPE_NULL, a + 2, 1, MPI_INT, comm), MPI_ERR_TYPE);
    FAILS(MPI_Neighbor_alltoall(a, 1, MPI_INT, a + 2, 1, MPI_DATATYPE_NULL, comm), MPI_ERR_TYPE);
    FAILS(MPI_Neighbor_alltoall(NULL, 1, MPI_INT, a + 2, 1, MPI_INT, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_INT, a + 2, 1, MPI_INT, comm), MPI_ERR_BUFFER);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    static const struct { int n, dims[3], periods[3]; } grids[] = {
        {1, {1}, {1}}, {1, {2}, {1}}, {1, {2}, {0}}, {1, {3}, {0}}, {2, {2, 1}, {1, 1}}, {2, {2, 2}, {1, 0}},
        {3, {1, 3, 2}, {0, 1, 1}}, {1, {7}, {1}}, {0, {0}, {0}},
    };
    check_start(&argc, &argv);
    OK(MPI_Type_contiguous(3, MPI_INT, &units[0]));
    OK(MPI_Type_commit(&units[0]));
    MPI_Datatype vector;
    OK(MPI_Type_vector(3, 1, 2, MPI_INT, &vector));
    OK(MPI_Type_create_resized(vector, 0, 24, &units[1]));
    OK(MPI_Type_commit(&units[1]));
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) grid(grids[i].n, grids[i].dims, grids[i].periods);
    ring_graph();
    dist_graph(0);
    dist_graph(1);
    long_blocks();
    wrong();
    OK(MPI_Type_free(&vector));
    for (int i = 0; i < 2; i++) OK(MPI_Type_free(&units[i]));
    return check_end();
}
