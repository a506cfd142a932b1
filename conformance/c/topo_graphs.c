/* Graph topologies of both sorts: neighbours, weights, several edges between two ranks and loops, duplicates, and wrong
 * arguments. */
#include "check.h"

#define EDGES_MAX 256

/* MPI_UNWEIGHTED, of which the compiler does not know that nothing is there. */
int *unweighted = MPI_UNWEIGHTED;

/* How many edges go from one rank to another in the test's graph, and the weight of each. */
static int edge_count(int from, int to) { return (from * 5 + to * 3 + from * to) % 3; }
static int weight_of(int from, int to, int edge) { return from * 1000 + to * 10 + edge; }

static int topology(MPI_Comm comm)
{
    int kind = -1;
    OK(MPI_Topo_test(comm, &kind));
    return kind;
}

/* A graph that everybody describes: node i has the neighbours i + 1 … i + i % 3 + 1, and itself. */
static void graph(int nodes)
{
    int ends[64], edges[EDGES_MAX], got_ends[64], got_edges[EDGES_MAX], at = 0, n = -1, e = -1, newrank = -7;
    MPI_Comm comm, dup;
    if (nodes > check_size) return;
    for (int node = 0; node < nodes; node++) {
        for (int k = 0; k <= node % 3 + 1; k++) edges[at++] = (node + k) % nodes;
        ends[node] = at;
    }
    OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, ends, edges, &newrank));
    CHECK(newrank == (check_rank < nodes ? check_rank : MPI_UNDEFINED), "MPI_Graph_map gave %d", newrank);
    OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, ends, edges, nodes % 2, &comm));
    CHECK((comm == MPI_COMM_NULL) == (check_rank >= nodes), "a graph of %d: wrong members", nodes);
    if (comm == MPI_COMM_NULL) return;
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_free(&comm));
    CHECK(topology(dup) == MPI_GRAPH, "the topology is %d", topology(dup));
    OK(MPI_Graphdims_get(dup, &n, &e));
    CHECK(n == nodes && e == at, "%d nodes and %d edges, not %d and %d", n, e, nodes, at);
    OK(MPI_Graph_get(dup, 64, EDGES_MAX, got_ends, got_edges));
    CHECK(!memcmp(ends, got_ends, (size_t)n * sizeof *ends), "other ends of neighbour lists");
    CHECK(!memcmp(edges, got_edges, (size_t)e * sizeof *edges), "other edges");
    for (int node = 0; node < nodes; node++) {
        int count = -1, first = node ? ends[node - 1] : 0;
        OK(MPI_Graph_neighbors_count(dup, node, &count));
        CHECK(count == ends[node] - first, "node %d has %d neighbours", node, count);
        memset(got_edges, -1, sizeof got_edges);
        OK(MPI_Graph_neighbors(dup, node, count, got_edges));
        CHECK(!memcmp(edges + first, got_edges, (size_t)count * sizeof *edges), "other neighbours of %d", node);
        CHECK(got_edges[count] == -1, "more neighbours of %d than there are", node);
    }
    OK(MPI_Comm_free(&dup));
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The neighbour lists of this rank are the test's graph, in whatever order. */
static void has_edges(const char *what, MPI_Comm comm, int weighted)
{
    int in = -1, out = -1, is_weighted = -1, n = 0, m = 0;
    int ranks[2][EDGES_MAX], weights[2][EDGES_MAX], wanted[2][EDGES_MAX];
    CHECK(topology(comm) == MPI_DIST_GRAPH, "%s: the topology is %d", what, topology(comm));
    OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &is_weighted));
    for (int other = 0; other < check_size; other++) {
        for (int k = 0; k < edge_count(other, check_rank); k++) wanted[0][n++] = weight_of(other, check_rank, k);
        for (int k = 0; k < edge_count(check_rank, other); k++) wanted[1][m++] = weight_of(check_rank, other, k);
    }
    CHECK(in == n && out == m, "%s: %d in and %d out, not %d and %d", what, in, out, n, m);
    CHECK(is_weighted == weighted, "%s: weighted is %d", what, is_weighted);
    if (in != n || out != m) return;
    memset(weights, -1, sizeof weights);
    OK(MPI_Dist_graph_neighbors(comm, in, ranks[0], weighted ? weights[0] : unweighted,
                                out, ranks[1], weighted ? weights[1] : unweighted));
    for (int side = 0; side < 2; side++) {
        int count = side ? m : n;
        for (int i = 0; i < count; i++) {
            int own = ranks[side][i];
            if (!weighted) weights[side][i] = side ? weight_of(check_rank, own, 0) : weight_of(own, check_rank, 0);
            else CHECK((side ? weights[1][i] % 1000 / 10 : weights[0][i] / 1000) == own, "%s: a weight of another", what);
        }
        for (int i = 0; !weighted && i < count; i++) wanted[side][i] -= wanted[side][i] % 10;
        qsort(weights[side], (size_t)count, sizeof(int), by_value);
        CHECK(!memcmp(weights[side], wanted[side], (size_t)count * sizeof(int)), "%s: other edges, side %d", what, side);
        CHECK(weights[side][count] == -1, "%s: more weights than edges", what);
    }
    if (in > 1) {
        int few[3] = {-1, -1, -1};
        OK(MPI_Dist_graph_neighbors(comm, 1, few, weighted ? few + 1 : unweighted, 0, few + 2, unweighted));
        CHECK(few[0] == ranks[0][0] && few[2] == -1, "%s: the first neighbour is %d", what, few[0]);
    }
}

/* Each rank names the edges that touch it. */
static void adjacent(int weighted)
{
    int in = 0, out = 0, sources[EDGES_MAX], destinations[EDGES_MAX], in_w[EDGES_MAX], out_w[EDGES_MAX];
    MPI_Comm comm, dup;
    MPI_Request request;
    for (int other = check_size - 1; other >= 0; other--) {
        for (int k = 0; k < edge_count(other, check_rank); k++)
            sources[in] = other, in_w[in++] = weight_of(other, check_rank, k);
        for (int k = 0; k < edge_count(check_rank, other); k++)
            destinations[out] = other, out_w[out++] = weight_of(check_rank, other, k);
    }
    int *w_in = weighted ? in ? in_w : MPI_WEIGHTS_EMPTY : unweighted;
    int *w_out = weighted ? out ? out_w : MPI_WEIGHTS_EMPTY : unweighted;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, w_in, out, destinations, w_out, MPI_INFO_NULL, 1,
                                      &comm));
    has_edges("adjacent", comm, weighted);
    OK(MPI_Comm_idup(comm, &dup, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&comm));
    has_edges("a duplicate", dup, weighted);
    OK(MPI_Comm_free(&dup));
}

/* Each edge is named by a rank that it need not touch. */
static void anywhere(int weighted)
{
    int n = 0, at = 0, sources[EDGES_MAX], degrees[EDGES_MAX], destinations[EDGES_MAX], weights[EDGES_MAX];
    MPI_Comm comm;
    for (int from = 0; from < check_size; from++)
        for (int to = 0; to < check_size; to++) {
            if ((from * 3 + to) % check_size != check_rank) continue;
            sources[n] = from;
            degrees[n++] = edge_count(from, to);
            for (int k = 0; k < edge_count(from, to); k++)
                destinations[at] = to, weights[at++] = weight_of(from, to, k);
        }
    int *w = weighted ? at ? weights : MPI_WEIGHTS_EMPTY : unweighted;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, destinations, w, MPI_INFO_NULL, 0, &comm));
    has_edges("named anywhere", comm, weighted);
    OK(MPI_Comm_free(&comm));
}

static void wrong(void)
{
    int zero[2] = {0, 0}, one[2] = {1, 1}, two[2] = {2, 1}, far[1] = {check_size}, neg[1] = {-1}, a, b, many[2];
    MPI_Comm comm = MPI_COMM_NULL;
    OK(MPI_Graph_create(MPI_COMM_WORLD, 0, zero, zero, 0, &comm));
    CHECK(comm == MPI_COMM_NULL, "a graph without nodes is a communicator");
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, -1, one, zero, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, check_size + 1, one, zero, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, 1, one, one, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, 1, neg, zero, 0, &comm), MPI_ERR_ARG);
    if (check_size > 1) FAILS(MPI_Graph_create(MPI_COMM_WORLD, 2, two, zero, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_NULL, 1, one, zero, 0, &comm), MPI_ERR_COMM);
    FAILS(MPI_Graphdims_get(MPI_COMM_WORLD, &a, &b), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graph_get(MPI_COMM_WORLD, 2, 2, many, many), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graph_neighbors_count(MPI_COMM_WORLD, 0, &a), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graph_neighbors(MPI_COMM_WORLD, 0, 2, many), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &a, &b, &a), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors(MPI_COMM_WORLD, 0, many, many, 0, many, many), MPI_ERR_TOPOLOGY);
    MPI_Comm self = MPI_COMM_SELF;
    FAILS(MPI_Dist_graph_create(self, -1, zero, one, zero, one, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(self, 1, zero, neg, zero, one, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(self, 1, zero, one, zero, neg, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    CHECK(MPI_Dist_graph_create(self, 1, far, one, zero, one, MPI_INFO_NULL, 0, &comm), "a source that is none");
    CHECK(MPI_Dist_graph_create(self, 1, zero, one, neg, one, MPI_INFO_NULL, 0, &comm), "a negative destination");
    FAILS(MPI_Dist_graph_create_adjacent(self, -1, zero, one, 0, zero, one, MPI_INFO_NULL, 0, &comm), MPI_ERR_ARG);
    CHECK(MPI_Dist_graph_create_adjacent(self, 1, far, one, 0, zero, one, MPI_INFO_NULL, 0, &comm), "no source");
    OK(MPI_Graph_create(self, 1, one, zero, 0, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    FAILS(MPI_Graph_neighbors_count(comm, 1, &a), MPI_ERR_RANK);
    FAILS(MPI_Graph_neighbors(comm, -1, 2, many), MPI_ERR_RANK);
    FAILS(MPI_Cartdim_get(comm, &a), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int nodes = 1; nodes <= 7; nodes++) graph(nodes);
    for (int weighted = 0; weighted < 2; weighted++) {
        adjacent(weighted);
        anywhere(weighted);
    }
    wrong();
    return check_end();
}
