/* Messages and sizes of every predefined C type; counts of mixed types; large-count forms. */
#include "check.h"

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

struct type { const char *name; MPI_Datatype type; int bytes; };

static void message(const struct type *t)
{
    enum { COUNT = 33 };
    int bytes = -1, count = -1, elements = -1, right = (check_rank + 1) % check_size;
    int left = (check_rank + check_size - 1) % check_size;
    MPI_Aint lower = -1, extent = -1;
    char out[COUNT * 64], in[COUNT * 64];
    MPI_Status status;
    OK(MPI_Type_size(t->type, &bytes));
    CHECK(bytes == t->bytes, "%s has %d bytes, not %d", t->name, bytes, t->bytes);
    OK(MPI_Type_get_extent(t->type, &lower, &extent));
    CHECK(lower == 0 && extent >= t->bytes, "%s: extent %ld at %ld", t->name, (long)extent, (long)lower);
    if (t->bytes > 64 || bytes != t->bytes) return;
    pattern_fill(out, sizeof out, (uint32_t)check_rank);
    memset(in, 0, sizeof in);
    OK(MPI_Sendrecv(out, COUNT, t->type, right, 3, in, COUNT, t->type, left, 3, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, t->type, &count));
    OK(MPI_Get_elements(&status, t->type, &elements));
    CHECK(count == COUNT && elements == COUNT, "%s: count %d, elements %d", t->name, count, elements);
    CHECK(pattern_wrong(in, (size_t)(COUNT * bytes), (uint32_t)left) < 0, "%s: wrong data", t->name);
}

#define T(mpi, c) {#mpi, mpi, (int)sizeof(c)}

static void all_types(void)
{
    const struct type types[] = {
        T(MPI_CHAR, char), T(MPI_SIGNED_CHAR, signed char), T(MPI_UNSIGNED_CHAR, unsigned char), T(MPI_SHORT, short),
        T(MPI_UNSIGNED_SHORT, unsigned short), T(MPI_INT, int), T(MPI_UNSIGNED, unsigned), T(MPI_LONG, long),
        T(MPI_UNSIGNED_LONG, unsigned long), T(MPI_LONG_LONG, long long), T(MPI_LONG_LONG_INT, long long),
        T(MPI_UNSIGNED_LONG_LONG, unsigned long long), T(MPI_FLOAT, float), T(MPI_DOUBLE, double),
        T(MPI_LONG_DOUBLE, long double), T(MPI_WCHAR, wchar_t), T(MPI_C_BOOL, bool), T(MPI_INT8_T, int8_t),
        T(MPI_INT16_T, int16_t), T(MPI_INT32_T, int32_t), T(MPI_INT64_T, int64_t), T(MPI_UINT8_T, uint8_t),
        T(MPI_UINT16_T, uint16_t), T(MPI_UINT32_T, uint32_t), T(MPI_UINT64_T, uint64_t), T(MPI_AINT, MPI_Aint),
        T(MPI_COUNT, MPI_Count), T(MPI_OFFSET, MPI_Offset), T(MPI_C_COMPLEX, float _Complex),
        T(MPI_C_FLOAT_COMPLEX, float _Complex), T(MPI_C_DOUBLE_COMPLEX, double _Complex),
        T(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex), T(MPI_BYTE, char), T(MPI_PACKED, char),
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) message(&types[i]);
}

/* A count that is no whole number of the asked type is MPI_UNDEFINED. */
static void odd_counts(void)
{
    char out[10] = {0}, in[16];
    MPI_Status status;
    int count = 0;
    OK(MPI_Sendrecv(out, 10, MPI_BYTE, check_rank, 4, in, 16, MPI_BYTE, check_rank, 4, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == MPI_UNDEFINED, "10 bytes are %d ints", count);
    OK(MPI_Get_count(&status, MPI_SHORT, &count));
    CHECK(count == 5, "10 bytes are %d shorts", count);
}

/* The forms with MPI_Count. */
static void large_count_forms(void)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    long out[100], in[100];
    MPI_Count count = 100, got = 0, size = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    for (int i = 0; i < 100; i++) out[i] = check_rank * 1000 + i;
    OK(MPI_Irecv_c(in, count, MPI_LONG, left, 5, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend_c(out, count, MPI_LONG, right, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    OK(MPI_Get_count_c(&statuses[0], MPI_LONG, &got));
    CHECK(got == 100 && in[99] == left * 1000 + 99, "Get_count_c gives %ld", (long)got);
    OK(MPI_Type_size_c(MPI_LONG, &size));
    CHECK(size == (MPI_Count)sizeof(long), "Type_size_c gives %ld", (long)size);
    OK(MPI_Sendrecv_c(out, count, MPI_LONG, right, 6, in, count, MPI_LONG, left, 6, MPI_COMM_WORLD, &statuses[0]));
    OK(MPI_Allreduce_c(out, in, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(in[1] == 1000L * check_size * (check_size - 1) / 2 + check_size, "Allreduce_c gives %ld", in[1]);
    OK(MPI_Bcast_c(in, count, MPI_LONG, check_size - 1, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    all_types();
    odd_counts();
    large_count_forms();
    return check_end();
}
