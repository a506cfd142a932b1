/* Cartesian topologies: ranks and coordinates against arithmetic of the test's own, shifts, sub-grids, duplicates, and
 * wrong arguments. */
#include "check.h"

#define DIMS_MAX 4

/* The coordinates of a rank, the last fastest. */
static void coords_of(int rank, int n, const int *dims, int *coords)
{
    for (int d = n - 1; d >= 0; d--) {
        coords[d] = rank % dims[d];
        rank /= dims[d];
    }
}

/* The rank one step away, or MPI_PROC_NULL. */
static int stepped(int rank, int n, const int *dims, const int *periods, int dim, int distance)
{
    int coords[DIMS_MAX], result = 0;
    coords_of(rank, n, dims, coords);
    long at = (long)coords[dim] + distance;
    if (periods[dim]) at = (at % dims[dim] + dims[dim]) % dims[dim];
    if (at < 0 || at >= dims[dim]) return MPI_PROC_NULL;
    coords[dim] = (int)at;
    for (int d = 0; d < n; d++) result = result * dims[d] + coords[d];
    return result;
}

static void shifts(MPI_Comm grid, int rank, int n, const int *dims, const int *periods)
{
    const int distances[] = {0, 1, -1, 2, -3, 7, 2147483647, -2147483647};
    for (int d = 0; d < n; d++)
        for (int i = 0; i < 8; i++) {
            int source = -9, dest = -9;
            OK(MPI_Cart_shift(grid, d, distances[i], &source, &dest));
            int to = stepped(rank, n, dims, periods, d, distances[i]);
            int from = stepped(rank, n, dims, periods, d, -distances[i]);
            CHECK(source == from && dest == to, "shift %d of dim %d: %d, %d", distances[i], d, source, dest);
        }
}

/* Each subset of dimensions: members by arithmetic, and messages in the sub-grid. */
static void subs(MPI_Comm grid, int rank, int size, int n, const int *dims, const int *periods)
{
    for (int mask = 0; mask < 1 << n; mask++) {
        int remain[DIMS_MAX] = {0}, mine[DIMS_MAX], theirs[DIMS_MAX], count = -1, sub_size = 0, wanted = 0, kind;
        int got_dims[DIMS_MAX], got_periods[DIMS_MAX], got_coords[DIMS_MAX], ranks[64];
        MPI_Comm sub;
        for (int d = 0; d < n; d++) remain[d] = mask >> d & 1 ? 5 : 0;
        OK(MPI_Cart_sub(grid, remain, &sub));
        OK(MPI_Topo_test(sub, &kind));
        CHECK(kind == MPI_CART, "a sub-grid has the topology %d", kind);
        OK(MPI_Cartdim_get(sub, &count));
        OK(MPI_Cart_get(sub, DIMS_MAX, got_dims, got_periods, got_coords));
        coords_of(rank, n, dims, mine);
        int at = 0;
        for (int d = 0; d < n; d++) {
            if (!remain[d]) continue;
            CHECK(got_dims[at] == dims[d] && got_coords[at] == mine[d], "mask %d: dimension %d is wrong", mask, d);
            CHECK(got_periods[at] == !!periods[d], "mask %d: period %d is wrong", mask, d);
            at++;
        }
        CHECK(count == at, "mask %d: %d dimensions", mask, count);
        OK(MPI_Comm_size(sub, &sub_size));
        OK(MPI_Allgather(&rank, 1, MPI_INT, ranks, 1, MPI_INT, sub));
        for (int other = 0; other < size; other++) {
            int same = 1;
            coords_of(other, n, dims, theirs);
            for (int d = 0; d < n; d++) same &= remain[d] || mine[d] == theirs[d];
            if (!same) continue;
            CHECK(wanted < sub_size && ranks[wanted] == other, "mask %d: rank %d is not %d", mask, wanted, other);
            wanted++;
        }
        CHECK(wanted == sub_size, "mask %d: %d ranks, not %d", mask, sub_size, wanted);
        OK(MPI_Comm_free(&sub));
    }
}

static void one_grid(int n, const int *dims, const int *periods, int reorder)
{
    MPI_Comm grid, dup;
    int total = 1, size = -1, rank = -1, kind = -1, count = -1, newrank = -7;
    for (int d = 0; d < n; d++) total *= dims[d];
    if (total > check_size) return;
    OK(MPI_Cart_map(MPI_COMM_WORLD, n, dims, periods, &newrank));
    CHECK(newrank == (check_rank < total ? check_rank : MPI_UNDEFINED), "MPI_Cart_map gave %d", newrank);
    OK(MPI_Cart_create(MPI_COMM_WORLD, n, dims, periods, reorder, &grid));
    CHECK((grid == MPI_COMM_NULL) == (check_rank >= total), "a grid of %d: wrong members", total);
    if (grid == MPI_COMM_NULL) return;
    OK(MPI_Comm_size(grid, &size));
    OK(MPI_Comm_rank(grid, &rank));
    CHECK(size == total, "a grid of %d has %d", total, size);
    OK(MPI_Comm_dup(grid, &dup));
    OK(MPI_Comm_free(&grid));
    OK(MPI_Topo_test(dup, &kind));
    CHECK(kind == MPI_CART, "a duplicate has the topology %d", kind);
    OK(MPI_Cartdim_get(dup, &count));
    CHECK(count == n, "%d dimensions, not %d", count, n);
    for (int other = 0; other < total; other++) {
        int wanted[DIMS_MAX], coords[DIMS_MAX], found = -1;
        coords_of(other, n, dims, wanted);
        OK(MPI_Cart_coords(dup, other, DIMS_MAX, coords));
        CHECK(!memcmp(wanted, coords, (size_t)n * sizeof *coords), "rank %d is elsewhere", other);
        for (int d = 0; d < n; d++)
            if (periods[d]) coords[d] += (other % 3 - 1) * 4 * dims[d];
        OK(MPI_Cart_rank(dup, coords, &found));
        CHECK(found == other, "the coordinates of %d are those of %d", other, found);
    }
    shifts(dup, rank, n, dims, periods);
    subs(dup, rank, total, n, dims, periods);
    OK(MPI_Comm_split(dup, 0, 0, &grid));
    OK(MPI_Topo_test(grid, &kind));
    CHECK(kind == MPI_UNDEFINED, "a split communicator has the topology %d", kind);
    OK(MPI_Comm_free(&grid));
    OK(MPI_Comm_free(&dup));
}

static void wrong(void)
{
    int dims[2] = {1, 1}, periods[2] = {0, 0}, none[2] = {1, 0}, many[2] = {1 << 20, 1 << 20}, a, b, coords[2];
    int negative[2] = {1, -1};
    MPI_Comm grid = MPI_COMM_NULL;
    FAILS(MPI_Cart_create(MPI_COMM_NULL, 2, dims, periods, 0, &grid), MPI_ERR_COMM);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &grid), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, none, periods, 0, &grid), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, many, periods, 0, &grid), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, NULL, periods, 0, &grid), MPI_ERR_ARG);
    FAILS(MPI_Cart_map(MPI_COMM_WORLD, 2, negative, periods, &a), MPI_ERR_DIMS);
    /* rsmpi's example asks for 2 by size / 4. Nobody belongs to a grid without processes. */
    OK(MPI_Cart_map(MPI_COMM_WORLD, 2, none, periods, &a));
    CHECK(a == MPI_UNDEFINED, "MPI_Cart_map gave %d in a grid without processes", a);
    FAILS(MPI_Cartdim_get(MPI_COMM_WORLD, &a), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_get(MPI_COMM_WORLD, 2, dims, periods, coords), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_rank(MPI_COMM_WORLD, dims, &a), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_coords(MPI_COMM_WORLD, 0, 2, coords), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &a, &b), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_sub(MPI_COMM_WORLD, dims, &grid), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Topo_test(MPI_COMM_NULL, &a), MPI_ERR_COMM);
    OK(MPI_Cart_create(MPI_COMM_SELF, 2, dims, periods, 0, &grid));
    OK(MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN));
    FAILS(MPI_Cart_get(grid, 1, dims, periods, coords), MPI_ERR_ARG);
    FAILS(MPI_Cart_coords(grid, 0, 1, coords), MPI_ERR_ARG);
    FAILS(MPI_Cart_coords(grid, 1, 2, coords), MPI_ERR_RANK);
    FAILS(MPI_Cart_coords(grid, -1, 2, coords), MPI_ERR_RANK);
    FAILS(MPI_Cart_rank(grid, dims, &a), MPI_ERR_ARG);
    FAILS(MPI_Cart_shift(grid, 0, 1, NULL, &b), MPI_ERR_ARG);
    FAILS(MPI_Graphdims_get(grid, &a, &b), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dist_graph_neighbors_count(grid, &a, &b, &a), MPI_ERR_TOPOLOGY);
    CHECK(MPI_Cart_shift(grid, 2, 1, &a, &b) != MPI_SUCCESS, "a shift in a dimension that is none");
    CHECK(MPI_Cart_shift(grid, -1, 1, &a, &b) != MPI_SUCCESS, "a shift in a negative dimension");
    OK(MPI_Comm_free(&grid));
}

/* What the host can be told apart by guides a split. */
static void hardware(void)
{
    MPI_Info info;
    int keys = -1, flag;
    char key[MPI_MAX_INFO_KEY + 1], value[8];
    OK(MPI_Get_hw_resource_info(&info));
    OK(MPI_Info_get_nkeys(info, &keys));
    for (int i = 0; i < keys; i++) {
        int length = sizeof value;
        OK(MPI_Info_get_nthkey(info, i, key));
        OK(MPI_Info_get_string(info, key, &length, value, &flag));
        CHECK(flag && (!strcmp(value, "true") || !strcmp(value, "false")), "%s is %s", key, value);
    }
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    static const struct { int n, dims[DIMS_MAX], periods[DIMS_MAX]; } grids[] = {
        {0, {0}, {0}}, {1, {1}, {1}}, {1, {2}, {1}}, {1, {3}, {0}}, {2, {1, 2}, {0, 1}}, {2, {2, 2}, {1, 0}},
        {2, {3, 2}, {1, 1}}, {3, {1, 5, 1}, {0, 0, 1}}, {3, {2, 1, 2}, {1, 1, 1}}, {4, {1, 3, 2, 1}, {0, 1, 0, 1}},
        {1, {7}, {1}},
    };
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++)
        one_grid(grids[i].n, grids[i].dims, grids[i].periods, (int)(i % 2));
    wrong();
    hardware();
    return check_end();
}
