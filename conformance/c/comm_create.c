/* Communicators: dup, idup, split, split_type, create, create_group, compare, names, free, many in a row. */
#include "check.h"

/* A sum and a ring over `comm` prove that its members agree on who they are. */
static void works(const char *what, MPI_Comm comm, int wanted_rank, int wanted_size)
{
    int rank = -1, size = -1, sum = 0, got = -1;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    CHECK(rank == wanted_rank && size == wanted_size, "%s: rank %d of %d, not %d of %d", what, rank, size, wanted_rank,
          wanted_size);
    if (size < 1) return;
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == size * (size - 1) / 2, "%s: ranks sum to %d", what, sum);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT, (rank + size - 1) % size, 1, comm,
                    MPI_STATUS_IGNORE));
    CHECK(got == (rank + size - 1) % size, "%s: the left neighbour is %d", what, got);
}

static int comparison(MPI_Comm a, MPI_Comm b)
{
    int result = -1;
    OK(MPI_Comm_compare(a, b, &result));
    return result;
}

static void duplicates(void)
{
    MPI_Comm dup, idup, with_info, self;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    works("dup", dup, check_rank, check_size);
    CHECK(comparison(dup, MPI_COMM_WORLD) == MPI_CONGRUENT, "a duplicate is not congruent");
    CHECK(comparison(dup, dup) == MPI_IDENT, "not identical with itself");
    OK(MPI_Comm_idup(dup, &idup, &request));
    OK(MPI_Barrier(dup)); /* the parent may be used meanwhile */
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    works("idup", idup, check_rank, check_size);
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &with_info));
    works("dup_with_info", with_info, check_rank, check_size);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
    works("dup of self", self, 0, 1);
    CHECK(comparison(self, MPI_COMM_SELF) == MPI_CONGRUENT, "dup of self");
    OK(MPI_Comm_free(&self));
    OK(MPI_Comm_free(&dup)); /* before its child: they are independent */
    works("idup after its parent", idup, check_rank, check_size);
    OK(MPI_Comm_free(&idup));
    OK(MPI_Comm_free(&with_info));
}

/* Several idups under way in the same order everywhere. */
static void many_idups(void)
{
    enum { COUNT = 5 };
    MPI_Comm comms[COUNT];
    MPI_Request requests[COUNT];
    for (int i = 0; i < COUNT; i++) OK(MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]));
    OK(MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COUNT; i++) {
        works("one of five idups", comms[i], check_rank, check_size);
        for (int j = 0; j < i; j++) CHECK(comparison(comms[i], comms[j]) == MPI_CONGRUENT, "idups %d and %d", i, j);
    }
    for (int i = 0; i < COUNT; i++) OK(MPI_Comm_free(&comms[i]));
}

/* How many hosts the ranks are on: one, unless whoever starts this says so. */
static int hosts(void)
{
    const char *text = getenv("CHECK_HOSTS");
    int count = text ? atoi(text) : 1;
    return count < check_size ? count : check_size;
}

static void splits(void)
{
    MPI_Comm half, backwards, left_out, node;
    int evens = (check_size + 1) / 2, mine = check_rank % 2 ? check_size / 2 : evens;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half)); /* equal keys: the old order */
    works("split by parity", half, check_rank / 2, mine);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 3, -check_rank, &backwards));
    works("split backwards", backwards, check_size - 1 - check_rank, check_size);
    CHECK(comparison(backwards, MPI_COMM_WORLD) == (check_size > 1 ? MPI_SIMILAR : MPI_CONGRUENT), "not similar");
    OK(MPI_Comm_split(half, check_rank == 0 ? MPI_UNDEFINED : 0, 0, &left_out));
    CHECK((left_out == MPI_COMM_NULL) == (check_rank == 0), "MPI_UNDEFINED must give MPI_COMM_NULL, only there");
    if (left_out != MPI_COMM_NULL) {
        int gone = check_rank % 2 == 0;
        works("split without rank 0", left_out, check_rank / 2 - gone, mine - gone);
        OK(MPI_Comm_free(&left_out));
    }
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, check_rank, MPI_INFO_NULL, &node));
    int size = 0, rank = -1, first, nodes = 0;
    OK(MPI_Comm_size(node, &size));
    OK(MPI_Comm_rank(node, &rank));
    works("split by node", node, rank, size);
    first = rank == 0;
    OK(MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(nodes == hosts(), "ranks on %d hosts are on %d nodes", hosts(), nodes);
    OK(MPI_Comm_free(&node));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &node));
    CHECK(node == MPI_COMM_NULL, "split_type with MPI_UNDEFINED");
    OK(MPI_Comm_free(&backwards));
    OK(MPI_Comm_free(&half));
}

static void from_groups(void)
{
    MPI_Group world, odd;
    MPI_Comm comm;
    int range[1][3] = {{1, check_size - 1, 2}};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    if (check_size == 1) OK(MPI_Group_incl(world, 0, NULL, &odd));
    else OK(MPI_Group_range_incl(world, 1, range, &odd));
    OK(MPI_Comm_create(MPI_COMM_WORLD, odd, &comm)); /* all call, the group's members get it */
    CHECK((comm != MPI_COMM_NULL) == (check_rank % 2 == 1), "Comm_create gave the wrong ranks a communicator");
    if (comm != MPI_COMM_NULL) {
        works("Comm_create", comm, check_rank / 2, check_size / 2);
        OK(MPI_Comm_free(&comm));
    }
    if (check_rank % 2) { /* only the members call */
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, odd, 77, &comm));
        works("Comm_create_group", comm, check_rank / 2, check_size / 2);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Group_free(&odd));
    OK(MPI_Group_free(&world));
}

/* A pending message keeps a freed communicator alive until it has arrived. */
static void freed_with_traffic(void)
{
    MPI_Comm comm;
    MPI_Request requests[2];
    int out = check_rank, in = -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&in, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 8, comm, &requests[0]));
    OK(MPI_Isend(&out, 1, MPI_INT, (check_rank + 1) % check_size, 8, comm, &requests[1]));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK(in == (check_rank + check_size - 1) % check_size, "got %d", in);
}

/* Identifiers are used again: far more than any table holds. */
static void very_many(void)
{
    for (int i = 0; i < 3000; i++) {
        MPI_Comm comm;
        OK(i % 2 ? MPI_Comm_dup(MPI_COMM_WORLD, &comm) : MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank, &comm));
        if (i % 500 == 0) works("one of thousands", comm, check_rank, check_size);
        OK(MPI_Comm_free(&comm));
        if (check_errors) return;
    }
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME] = "x";
    int length = -1, inter = 1;
    MPI_Comm comm;
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    CHECK(!strcmp(name, "MPI_COMM_WORLD") && length == 14, "the world is called %s", name);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_name(comm, "a name with blanks"));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK(!strcmp(name, "a name with blanks"), "named %s", name);
    OK(MPI_Comm_test_inter(comm, &inter));
    CHECK(!inter, "an intracommunicator says it is an intercommunicator");
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    works("the world", MPI_COMM_WORLD, check_rank, check_size);
    works("self", MPI_COMM_SELF, 0, 1);
    duplicates();
    many_idups();
    splits();
    from_groups();
    freed_with_traffic();
    very_many();
    names();
    return check_end();
}
