/* Blocking collectives on communicators other than MPI_COMM_WORLD: duplicates, parts, reversed orders, more at a time
 * than a host has direct paths for, freed and made again; any root, in place, nothing, and long data. */
#include "check.h"

static int rank, size;
static MPI_Comm comm;

enum { LENGTHS = 6 };
static const int lengths[LENGTHS] = {0, 1, 13, 700, 9001, 40003};

static int value(int who, int i) { return who * 10007 + i * 3 + 1; }

static int *words(int count) { return malloc(sizeof(int) * (size_t)(count ? count : 1)); }

static int is_block(const int *block, int who, int count)
{
    for (int i = 0; i < count; i++)
        if (block[i] != value(who, i)) return 0;
    return 1;
}

static void fill(int *block, int who, int count)
{
    for (int i = 0; i < count; i++) block[i] = value(who, i);
}

static int sum(int upto, int i)
{
    int total = 0;
    for (int r = 0; r < upto; r++) total += value(r, i);
    return total;
}

static int is_sum(const int *block, int upto, int count)
{
    for (int i = 0; i < count; i++)
        if (block[i] != sum(upto, i)) return 0;
    return 1;
}

static void rooted(int root, int count, int *mine, int *all)
{
    fill(mine, rank == root ? root : -1, count);
    OK(MPI_Bcast(mine, count, MPI_INT, root, comm));
    CHECK(is_block(mine, root, count), "bcast of %d from %d of %d", count, root, size);

    fill(mine, rank, count);
    if (rank == root) {
        fill(all + root * count, root, count);
        OK(MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, all, count, MPI_INT, root, comm));
        for (int r = 0; r < size; r++) CHECK(is_block(all + r * count, r, count), "gather of %d at %d", count, root);
        OK(MPI_Scatter(all, count, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, root, comm));
    } else {
        OK(MPI_Gather(mine, count, MPI_INT, NULL, 0, MPI_INT, root, comm));
        fill(mine, -5, count);
        OK(MPI_Scatter(NULL, 0, MPI_INT, mine, count, MPI_INT, root, comm));
        CHECK(is_block(mine, rank, count), "scatter of %d from %d of %d", count, root, size);
    }

    fill(mine, rank, count);
    OK(MPI_Reduce(rank == root ? MPI_IN_PLACE : mine, mine, count, MPI_INT, MPI_SUM, root, comm));
    if (rank == root) CHECK(is_sum(mine, size, count), "reduce of %d to %d of %d", count, root, size);
}

static void everywhere(int count, int *mine, int *all)
{
    fill(mine, rank, count);
    OK(MPI_Allreduce(MPI_IN_PLACE, mine, count, MPI_INT, MPI_SUM, comm));
    CHECK(is_sum(mine, size, count), "allreduce of %d of %d", count, size);

    fill(all + rank * count, rank, count);
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comm));
    for (int r = 0; r < size; r++) CHECK(is_block(all + r * count, r, count), "allgather of %d of %d", count, size);

    for (int r = 0; r < size; r++) fill(all + r * count, rank * 64 + r, count);
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comm));
    for (int r = 0; r < size; r++)
        CHECK(is_block(all + r * count, r * 64 + rank, count), "alltoall of %d of %d", count, size);

    for (int r = 0; r < size; r++) fill(all + r * count, rank, count);
    OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, all, count, MPI_INT, MPI_SUM, comm));
    CHECK(is_sum(all, size, count), "reduce_scatter_block of %d of %d", count, size);

    fill(mine, rank, count);
    OK(MPI_Scan(MPI_IN_PLACE, mine, count, MPI_INT, MPI_SUM, comm));
    CHECK(is_sum(mine, rank + 1, count), "scan of %d at %d of %d", count, rank, size);
    fill(mine, rank, count);
    OK(MPI_Exscan(MPI_IN_PLACE, mine, count, MPI_INT, MPI_SUM, comm));
    CHECK(rank ? is_sum(mine, rank, count) : is_block(mine, 0, count), "exscan of %d at %d of %d", count, rank, size);
}

/* All of it on one communicator, which the caller frees. */
static void exercise(MPI_Comm one, int lengths_count)
{
    if (one == MPI_COMM_NULL) return;
    comm = one;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    for (int at = 0; at < lengths_count; at++) {
        int count = lengths[at], *mine = words(count), *all = words(count * size);
        OK(MPI_Barrier(comm));
        for (int root = 0; root < size; root++) rooted(root, count, mine, all);
        everywhere(count, mine, all);
        free(mine);
        free(all);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm duplicate, half, reversed, part, again, many[40];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    OK(MPI_Comm_split(duplicate, 0, -check_rank, &reversed));
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank ? 0 : MPI_UNDEFINED, 0, &part));
    exercise(duplicate, LENGTHS);
    exercise(half, LENGTHS);
    exercise(reversed, LENGTHS);
    exercise(part, LENGTHS);
    exercise(MPI_COMM_SELF, LENGTHS);

    /* A communicator of a communicator, by a group in another order, and without a call of the others. */
    MPI_Group group, others;
    int range[1][3] = {{check_size - 1, 0, -1}};
    OK(MPI_Comm_group(duplicate, &group));
    OK(MPI_Group_range_incl(group, 1, range, &others));
    OK(MPI_Comm_create_group(duplicate, others, 5, &again));
    exercise(again, 3);
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_create(duplicate, others, &again));
    exercise(again, 3);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&others));

    /* A non-blocking duplicate, used while its parent is. */
    MPI_Comm later;
    MPI_Request request;
    OK(MPI_Comm_idup(again, &later, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    exercise(later, 3);
    exercise(again, 3);
    OK(MPI_Comm_free(&later));
    OK(MPI_Comm_free(&again));

    /* More than there are direct paths; then all again. */
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 40; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &many[i]));
        for (int i = 39; i >= 0; i -= 3) exercise(many[i], 3);
        for (int i = 0; i < 40; i++) OK(MPI_Comm_free(&many[(i * 7) % 40]));
    }
    for (int i = 0; i < 100; i++) {
        OK(MPI_Comm_split(half, 0, i % 2 ? check_rank : -check_rank, &again));
        exercise(again, 2);
        OK(MPI_Comm_free(&again));
    }
    exercise(half, LENGTHS);

    OK(MPI_Comm_free(&duplicate));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&reversed));
    if (part != MPI_COMM_NULL) OK(MPI_Comm_free(&part));
    return check_end();
}
