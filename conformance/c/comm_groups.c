/* Groups: all constructors and questions, no communication. */
#include "check.h"

static MPI_Group world;

/* Whether `group` holds exactly these world ranks in this order. */
static void holds(const char *what, MPI_Group group, int count, const int *wanted)
{
    int size = -1, ours[64], there[64];
    OK(MPI_Group_size(group, &size));
    CHECK(size == count, "%s has %d members, not %d", what, size, count);
    if (size != count || count == 0) return;
    for (int i = 0; i < count; i++) ours[i] = i;
    OK(MPI_Group_translate_ranks(group, count, ours, world, there));
    for (int i = 0; i < count; i++) CHECK(there[i] == wanted[i], "%s: member %d is %d, not %d", what, i, there[i], wanted[i]);
}

static int comparison(MPI_Group a, MPI_Group b)
{
    int result = -1;
    OK(MPI_Group_compare(a, b, &result));
    return result;
}

static void include_exclude(void)
{
    int backwards[64], some[64], count = 0, odd[64], odds = 0;
    MPI_Group reversed, chosen, rest, empty;
    for (int i = 0; i < check_size; i++) {
        backwards[i] = check_size - 1 - i;
        if (i % 2) odd[odds++] = i;
        else some[count++] = i;
    }
    OK(MPI_Group_incl(world, check_size, backwards, &reversed));
    holds("reversed", reversed, check_size, backwards);
    CHECK(comparison(world, reversed) == (check_size > 1 ? MPI_SIMILAR : MPI_IDENT), "reversed is not similar");
    OK(MPI_Group_incl(world, count, some, &chosen));
    holds("even ranks", chosen, count, some);
    OK(MPI_Group_excl(world, count, some, &rest));
    holds("odd ranks", rest, odds, odd);
    CHECK(comparison(chosen, rest) == MPI_UNEQUAL, "even and odd ranks are equal");
    int mine = -2;
    OK(MPI_Group_rank(chosen, &mine));
    CHECK(mine == (check_rank % 2 ? MPI_UNDEFINED : check_rank / 2), "rank in the even group is %d", mine);
    OK(MPI_Group_incl(world, 0, NULL, &empty));
    CHECK(comparison(empty, MPI_GROUP_EMPTY) == MPI_IDENT, "an empty group is not MPI_GROUP_EMPTY's equal");
    OK(MPI_Group_free(&empty));
    OK(MPI_Group_free(&reversed));
    OK(MPI_Group_free(&chosen));
    OK(MPI_Group_free(&rest));
    CHECK(rest == MPI_GROUP_NULL, "Group_free leaves a handle");
}

static void ranges(void)
{
    int up[1][3] = {{0, check_size - 1, 2}}, down[1][3] = {{check_size - 1, 0, -1}};
    int wanted[64], count = 0;
    MPI_Group group;
    for (int i = 0; i < check_size; i += 2) wanted[count++] = i;
    OK(MPI_Group_range_incl(world, 1, up, &group));
    holds("range 0..:2", group, count, wanted);
    OK(MPI_Group_free(&group));
    count = 0;
    for (int i = 1; i < check_size; i += 2) wanted[count++] = i;
    OK(MPI_Group_range_excl(world, 1, up, &group));
    holds("all but 0..:2", group, count, wanted);
    OK(MPI_Group_free(&group));
    for (int i = 0; i < check_size; i++) wanted[i] = check_size - 1 - i;
    OK(MPI_Group_range_incl(world, 1, down, &group));
    holds("range downwards", group, check_size, wanted);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_range_excl(world, 1, down, &group));
    holds("nothing", group, 0, NULL);
    OK(MPI_Group_free(&group));
}

/* Low and high halves overlap by one; order follows the first operand. */
static void set_operations(void)
{
    int half = check_size / 2, low[1][3] = {{half, 0, -1}}, high[1][3] = {{half, check_size - 1, 1}};
    int wanted[64], count = 0;
    MPI_Group a, b, result;
    OK(MPI_Group_range_incl(world, 1, low, &a));
    OK(MPI_Group_range_incl(world, 1, high, &b));
    for (int i = half; i >= 0; i--) wanted[count++] = i;
    for (int i = half + 1; i < check_size; i++) wanted[count++] = i;
    OK(MPI_Group_union(a, b, &result));
    holds("union", result, count, wanted);
    OK(MPI_Group_free(&result));
    OK(MPI_Group_intersection(a, b, &result));
    holds("intersection", result, 1, &half);
    OK(MPI_Group_free(&result));
    OK(MPI_Group_difference(a, b, &result));
    holds("difference", result, half, wanted + 1);
    OK(MPI_Group_free(&result));
    OK(MPI_Group_difference(a, a, &result));
    holds("difference with itself", result, 0, NULL);
    OK(MPI_Group_free(&result));
    OK(MPI_Group_union(MPI_GROUP_EMPTY, b, &result));
    CHECK(comparison(result, b) == MPI_IDENT, "union with nothing differs");
    OK(MPI_Group_free(&result));
    OK(MPI_Group_free(&a));
    OK(MPI_Group_free(&b));
}

static void translation(void)
{
    int ours[3] = {0, MPI_PROC_NULL, check_size - 1}, there[3] = {-9, -9, -9}, first = 0;
    MPI_Group one;
    OK(MPI_Group_incl(world, 1, &first, &one));
    OK(MPI_Group_translate_ranks(world, 3, ours, one, there));
    CHECK(there[0] == 0 && there[1] == MPI_PROC_NULL, "translated to %d and %d", there[0], there[1]);
    CHECK(there[2] == (check_size == 1 ? 0 : MPI_UNDEFINED), "the last rank became %d", there[2]);
    OK(MPI_Group_translate_ranks(world, 0, NULL, one, NULL));
    OK(MPI_Group_free(&one));
}

static void wrong_arguments(void)
{
    int outside = check_size, step[1][3] = {{0, check_size - 1, 0}}, size;
    MPI_Group group;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Group_size(MPI_GROUP_NULL, &size), MPI_ERR_GROUP);
    FAILS(MPI_Group_incl(world, 1, &outside, &group), MPI_ERR_RANK);
    FAILS(MPI_Group_range_incl(world, 1, step, &group), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int size = 0, rank = -1;
    if (check_size > 64) return printf("Skipped: at most 64 ranks\n"), MPI_Finalize(), 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_size(world, &size));
    OK(MPI_Group_rank(world, &rank));
    CHECK(size == check_size && rank == check_rank, "world group: %d of %d", rank, size);
    include_exclude();
    ranges();
    set_operations();
    translation();
    wrong_arguments();
    OK(MPI_Group_free(&world));
    return check_end();
}
