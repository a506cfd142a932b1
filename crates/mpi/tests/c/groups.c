/* Groups, names, comparisons, hints: what is local about communicators. Written for one process. */
#include "check.h"

int main(void)
{
    MPI_Group world, self, empty, both;
    MPI_Info info, used;
    int size, rank, result, length, flag, ranks[2] = {0, MPI_PROC_NULL}, translated[2], range[1][3] = {{0, 0, 1}};
    char name[MPI_MAX_OBJECT_NAME], value[16];

    start();
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size)); CHECK(size == 1);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank)); CHECK(rank == 0);
    OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_SELF, &result)); CHECK(result == MPI_CONGRUENT);
    OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result)); CHECK(result == MPI_IDENT);
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag)); CHECK(!flag);
    FAILS(MPI_ERR_COMM, MPI_Comm_remote_size(MPI_COMM_WORLD, &size));

    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length)); CHECK(!strcmp(name, "MPI_COMM_WORLD") && length == 14);
    OK(MPI_Comm_set_name(MPI_COMM_WORLD, "world"));
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length)); CHECK(!strcmp(name, "world"));
    OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &length)); CHECK(!strcmp(name, "MPI_COMM_NULL"));

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Info_set(info, "no_such_hint", "true"));
    OK(MPI_Comm_set_info(MPI_COMM_WORLD, info));
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &used));
    length = sizeof value;
    OK(MPI_Info_get_string(used, "mpi_assert_no_any_tag", &length, value, &flag)); CHECK(flag && !strcmp(value, "true"));
    OK(MPI_Info_get_string(used, "no_such_hint", &length, value, &flag)); CHECK(!flag);
    OK(MPI_Info_free(&used)); OK(MPI_Info_free(&info));

    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    OK(MPI_Group_size(world, &size)); CHECK(size == 1);
    OK(MPI_Group_rank(world, &rank)); CHECK(rank == 0);
    OK(MPI_Group_rank(MPI_GROUP_EMPTY, &rank)); CHECK(rank == MPI_UNDEFINED);
    OK(MPI_Group_compare(world, self, &result)); CHECK(result == MPI_IDENT);
    OK(MPI_Group_union(world, self, &both));
    OK(MPI_Group_size(both, &size)); CHECK(size == 1);
    OK(MPI_Group_free(&both)); CHECK(both == MPI_GROUP_NULL);
    OK(MPI_Group_difference(world, self, &empty)); CHECK(empty == MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&empty));
    OK(MPI_Group_translate_ranks(world, 2, ranks, self, translated)); CHECK(translated[0] == 0 && translated[1] == MPI_PROC_NULL);
    OK(MPI_Group_translate_ranks(world, 1, ranks, MPI_GROUP_EMPTY, translated)); CHECK(translated[0] == MPI_UNDEFINED);
    OK(MPI_Group_range_excl(world, 1, range, &empty)); CHECK(empty == MPI_GROUP_EMPTY);
    ranks[0] = 1;
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, ranks, &both));
    FAILS(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, ranks, self, translated));
    FAILS(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &size));
    FAILS(MPI_ERR_COUNT, MPI_Group_incl(world, -1, ranks, &both));

    int dims[3] = {0, 3, 0}, other[2] = {0, 5};
    OK(MPI_Dims_create(24, 3, dims)); CHECK(dims[0] == 4 && dims[1] == 3 && dims[2] == 2);
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(24, 2, other));
    OK(MPI_Group_free(&world)); OK(MPI_Group_free(&self));
    return finish();
}
