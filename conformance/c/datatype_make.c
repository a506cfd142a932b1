/* Constructors of datatypes: bounds, sizes, and the order of their bytes, against what the standard's formulas give. */
#include "check.h"
#include <stddef.h>

/* Checks size, bounds and true bounds, and that packing takes these bytes of memory in this order. */
static void is(int line, MPI_Datatype type, int count, MPI_Count size, MPI_Aint lb, MPI_Aint extent, MPI_Aint true_lb,
               MPI_Aint true_extent, const MPI_Aint *order)
{
    int n = 0, position = 0, packed_bytes = 0;
    MPI_Count x, y;
    MPI_Aint a, b;
    OK(MPI_Type_size(type, &n));
    CHECK(n == size, "line %d: size %d, not %d", line, n, (int)size);
    OK(MPI_Type_size_c(type, &x));
    CHECK(x == size, "line %d: size %d, not %d", line, (int)x, (int)size);
    OK(MPI_Type_get_extent(type, &a, &b));
    CHECK(a == lb && b == extent, "line %d: bounds %d, %d, not %d, %d", line, (int)a, (int)b, (int)lb, (int)extent);
    OK(MPI_Type_get_extent_c(type, &x, &y));
    CHECK(x == lb && y == extent, "line %d: large bounds differ", line);
    OK(MPI_Type_get_true_extent(type, &a, &b));
    CHECK(a == true_lb && b == true_extent, "line %d: true bounds %d, %d, not %d, %d", line, (int)a, (int)b, (int)true_lb,
          (int)true_extent);
    OK(MPI_Type_commit(&type));

    enum { MIDDLE = 4096, MEMORY = 2 * MIDDLE };
    unsigned char *memory = check_alloc(MEMORY), *packed = check_alloc(MEMORY), *back = check_alloc(MEMORY);
    pattern_fill(memory, MEMORY, 1);
    OK(MPI_Pack_size(count, type, MPI_COMM_WORLD, &packed_bytes));
    CHECK(packed_bytes >= count * size, "line %d: pack size %d", line, packed_bytes);
    OK(MPI_Pack(memory + MIDDLE, count, type, packed, MEMORY, &position, MPI_COMM_WORLD));
    position = 0;
    OK(MPI_Unpack(packed, MEMORY, &position, back + MIDDLE, count, type, MPI_COMM_WORLD));
    int here = 0;
    for (int e = 0; e < count && order; e++)
        for (MPI_Count i = 0; i < size; i++) {
            MPI_Aint at = MIDDLE + e * extent + order[i];
            CHECK(packed[here++] == memory[at], "line %d: packed byte %d is not that at %d", line, here - 1,
                  (int)at - MIDDLE);
            CHECK(back[at] == memory[at], "line %d: byte %d is not back", line, (int)at - MIDDLE);
            back[at] = 0;
        }
    for (int i = 0; i < MEMORY && order; i++) CHECK(back[i] == 0, "line %d: byte %d was touched", line, i - MIDDLE);
    free(memory), free(packed), free(back);
    OK(MPI_Type_free(&type));
    CHECK(type == MPI_DATATYPE_NULL, "line %d: the handle is not null", line);
}

#define IS(type, count, ...) is(__LINE__, type, count, __VA_ARGS__)
#define ORDER(...) ((const MPI_Aint[]){__VA_ARGS__})
#define INT(at) (at), (at) + 1, (at) + 2, (at) + 3
#define SHORT(at) (at), (at) + 1

static void rows_and_blocks(void)
{
    MPI_Datatype type;
    OK(MPI_Type_contiguous(3, MPI_SHORT, &type));
    IS(type, 2, 6, 0, 6, 0, 6, ORDER(SHORT(0), SHORT(2), SHORT(4)));
    OK(MPI_Type_contiguous_c(0, MPI_INT, &type));
    IS(type, 2, 0, 0, 0, 0, 0, NULL);
    OK(MPI_Type_vector(3, 2, 3, MPI_SHORT, &type));
    IS(type, 2, 12, 0, 16, 0, 16, ORDER(SHORT(0), SHORT(2), SHORT(6), SHORT(8), SHORT(12), SHORT(14)));
    OK(MPI_Type_vector(3, 1, -2, MPI_SHORT, &type));
    IS(type, 2, 6, -8, 10, -8, 10, ORDER(SHORT(0), SHORT(-4), SHORT(-8)));
    OK(MPI_Type_create_hvector(2, 1, 7, MPI_INT, &type));
    IS(type, 3, 8, 0, 11, 0, 11, ORDER(INT(0), INT(7)));
    OK(MPI_Type_create_hvector_c(2, 1, -7, MPI_SHORT, &type));
    IS(type, 3, 4, -7, 9, -7, 9, ORDER(SHORT(0), SHORT(-7)));
    OK(MPI_Type_indexed(3, (int[]){1, 0, 2}, (int[]){4, 9, 0}, MPI_SHORT, &type));
    IS(type, 2, 6, 0, 10, 0, 10, ORDER(SHORT(8), SHORT(0), SHORT(2)));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){9, -3}, MPI_SHORT, &type));
    IS(type, 2, 4, -3, 14, -3, 14, ORDER(SHORT(9), SHORT(-3)));
    OK(MPI_Type_create_indexed_block(2, 2, (int[]){5, 1}, MPI_SHORT, &type));
    IS(type, 2, 8, 2, 12, 2, 12, ORDER(SHORT(10), SHORT(12), SHORT(2), SHORT(4)));
    OK(MPI_Type_create_hindexed_block(3, 1, (MPI_Aint[]){11, 1, 5}, MPI_INT, &type));
    IS(type, 2, 12, 1, 14, 1, 14, ORDER(INT(11), INT(1), INT(5)));
}

static void structures_and_types_of_types(void)
{
    MPI_Datatype type, inner, old[3] = {MPI_SHORT, MPI_INT, MPI_SHORT};
    /* The end of a structure is padded to the strictest alignment among its types. */
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 4, 8}, old, &type));
    IS(type, 2, 8, 0, 12, 0, 10, ORDER(SHORT(0), INT(4), SHORT(8)));
    OK(MPI_Type_create_struct(2, (int[]){1, 0}, (MPI_Aint[]){2, 400}, old, &type));
    IS(type, 2, 2, 2, 2, 2, 2, ORDER(SHORT(2)));
    OK(MPI_Type_create_resized(MPI_SHORT, -4, 12, &type));
    IS(type, 2, 2, -4, 12, 0, 2, ORDER(SHORT(0)));

    /* Types of types. */
    OK(MPI_Type_create_resized(MPI_SHORT, 0, 6, &inner));
    OK(MPI_Type_contiguous(2, inner, &type));
    IS(type, 2, 4, 0, 12, 0, 8, ORDER(SHORT(0), SHORT(6)));
    OK(MPI_Type_vector(2, 2, 3, inner, &type));
    OK(MPI_Type_free(&inner)); /* what was made from it stays */
    IS(type, 2, 8, 0, 30, 0, 26, ORDER(SHORT(0), SHORT(6), SHORT(18), SHORT(24)));
    OK(MPI_Type_indexed(2, (int[]){1, 2}, (int[]){3, 0}, MPI_DOUBLE_INT, &type));
    {
        MPI_Aint order[36];
        for (int e = 0; e < 3; e++)
            for (int i = 0; i < 12; i++) order[12 * e + i] = (e == 0 ? 48 : 16 * (e - 1)) + i;
        IS(type, 2, 36, 0, 64, 0, 60, order);
    }
}

static void parts_of_arrays(void)
{
    MPI_Datatype type;
    OK(MPI_Type_create_subarray(2, (int[]){3, 4}, (int[]){2, 2}, (int[]){1, 1}, MPI_ORDER_C, MPI_SHORT, &type));
    IS(type, 2, 8, 0, 24, 10, 12, ORDER(SHORT(10), SHORT(12), SHORT(18), SHORT(20)));
    OK(MPI_Type_create_subarray(2, (int[]){3, 4}, (int[]){2, 2}, (int[]){1, 1}, MPI_ORDER_FORTRAN, MPI_SHORT, &type));
    IS(type, 2, 8, 0, 24, 8, 10, ORDER(SHORT(8), SHORT(10), SHORT(14), SHORT(16)));
    OK(MPI_Type_create_darray(4, 3, 2, (int[]){4, 5}, (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
                              (int[]){1, MPI_DISTRIBUTE_DFLT_DARG}, (int[]){2, 2}, MPI_ORDER_C, MPI_SHORT, &type));
    IS(type, 2, 8, 0, 40, 16, 24, ORDER(SHORT(16), SHORT(18), SHORT(36), SHORT(38)));
    OK(MPI_Type_create_darray(2, 0, 1, (int[]){7}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){2}, (int[]){2}, MPI_ORDER_FORTRAN,
                              MPI_SHORT, &type));
    IS(type, 2, 8, 0, 14, 0, 12, ORDER(SHORT(0), SHORT(2), SHORT(8), SHORT(10)));
}

/* More than an int holds. */
static void large_types(void)
{
    MPI_Datatype type;
    MPI_Count size, lb, extent;
    MPI_Aint small;
    int n;
    OK(MPI_Type_contiguous_c(3000000000, MPI_INT, &type));
    OK(MPI_Type_size_c(type, &size));
    CHECK(size == 12000000000, "size %lld", (long long)size);
    OK(MPI_Type_size(type, &n));
    CHECK(n == MPI_UNDEFINED, "size %d, not MPI_UNDEFINED", n);
    OK(MPI_Type_get_extent_x(type, &lb, &extent));
    CHECK(extent == 12000000000, "extent %lld", (long long)extent);
    OK(MPI_Type_get_true_extent(type, &small, &small));
    CHECK(small == 12000000000, "true extent %lld", (long long)small);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_vector_c(1000000000000, 1, 5, MPI_CHAR, &type));
    OK(MPI_Type_get_extent_c(type, &lb, &extent));
    CHECK(extent == 4999999999996, "extent %lld", (long long)extent);
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    rows_and_blocks();
    structures_and_types_of_types();
    parts_of_arrays();
    large_types();
    return check_end();
}
