/* MINLOC and MAXLOC on all pair types: the value, and the lowest index among equals. Padding may differ. */
#include "check.h"

#define COUNT 21

/* Ties on purpose: few distinct values. */
static int seed_value(int r, int i) { return (r * 5 + i * 3) % 4 - 1; }
static int seed_index(int r, int i) { return (r * 13 + i) % 29; }

static int better(int max, int a, int a_index, int b, int b_index)
{
    if (a != b) return max ? a > b : a < b;
    return a_index <= b_index;
}

#define PAIR(function, C, MPI) \
    static void function(int max) \
    { \
        struct { C value; int index; } mine[COUNT], got[COUNT], scan[COUNT], rooted[COUNT]; \
        MPI_Op op = max ? MPI_MAXLOC : MPI_MINLOC; \
        for (int i = 0; i < COUNT; i++) { \
            memset(&mine[i], 0, sizeof mine[i]); \
            mine[i].value = (C)seed_value(check_rank, i); \
            mine[i].index = seed_index(check_rank, i); \
        } \
        OK(MPI_Allreduce(mine, got, COUNT, MPI, op, MPI_COMM_WORLD)); \
        OK(MPI_Scan(mine, scan, COUNT, MPI, op, MPI_COMM_WORLD)); \
        OK(MPI_Reduce(mine, rooted, COUNT, MPI, op, 0, MPI_COMM_WORLD)); \
        for (int i = 0; i < COUNT; i++) { \
            int v = seed_value(0, i), at = seed_index(0, i); \
            for (int r = 0; r < check_size; r++) { \
                int w = seed_value(r, i), there = seed_index(r, i); \
                if (!better(max, v, at, w, there)) v = w, at = there; \
                if (r == check_rank) \
                    CHECK(scan[i].value == (C)v && scan[i].index == at, "%s: Scan, element %d", #MPI, i); \
            } \
            CHECK(got[i].value == (C)v && got[i].index == at, "%s: Allreduce gives %g at %d, not %d at %d", #MPI, \
                  (double)got[i].value, got[i].index, v, at); \
            CHECK(check_rank || (rooted[i].value == (C)v && rooted[i].index == at), "%s: Reduce, element %d", #MPI, i); \
        } \
    }

PAIR(float_int, float, MPI_FLOAT_INT)
PAIR(double_int, double, MPI_DOUBLE_INT)
PAIR(long_int, long, MPI_LONG_INT)
PAIR(two_int, int, MPI_2INT)
PAIR(short_int, short, MPI_SHORT_INT)
PAIR(long_double_int, long double, MPI_LONG_DOUBLE_INT)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int max = 0; max < 2; max++) {
        float_int(max);
        double_int(max);
        long_int(max);
        two_int(max);
        short_int(max);
        long_double_int(max);
    }
    return check_end();
}
