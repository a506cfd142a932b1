/* How a type was made, asked of the type: envelope and contents of every constructor, in both widths (MPI-5.0, 5.1.13). */
#include "check.h"

static void has(int line, MPI_Datatype type, int combiner, int ni, const int *i, int na, const MPI_Aint *a, int nc,
                const MPI_Count *c, int nd, const MPI_Datatype *d)
{
    MPI_Count integers, addresses, counts, types;
    int found, got_i[64];
    MPI_Aint got_a[64];
    MPI_Count got_c[64];
    MPI_Datatype got_d[64];
    OK(MPI_Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &found));
    CHECK(found == combiner, "line %d: combiner %d, not %d", line, found, combiner);
    CHECK(integers == ni && addresses == na && counts == nc && types == nd, "line %d: %d %d %d %d, not %d %d %d %d", line,
          (int)integers, (int)addresses, (int)counts, (int)types, ni, na, nc, nd);
    if (combiner != MPI_COMBINER_NAMED) {
        OK(MPI_Type_get_contents_c(type, 64, 64, 64, 64, got_i, got_a, got_c, got_d));
        for (int n = 0; n < ni; n++) CHECK(got_i[n] == i[n], "line %d: integer %d is %d, not %d", line, n, got_i[n], i[n]);
        for (int n = 0; n < na; n++) CHECK(got_a[n] == a[n], "line %d: address %d is wrong", line, n);
        for (int n = 0; n < nc; n++) CHECK(got_c[n] == c[n], "line %d: count %d is %d", line, n, (int)got_c[n]);
        for (int n = 0; n < nd; n++) CHECK(got_d[n] == d[n], "line %d: type %d is another", line, n);
    }
    if (nc == 0) {
        int few_integers, few_addresses, few_types;
        OK(MPI_Type_get_envelope(type, &few_integers, &few_addresses, &few_types, &found));
        CHECK(found == combiner && few_integers == ni && few_addresses == na && few_types == nd,
              "line %d: the small envelope differs", line);
        if (combiner != MPI_COMBINER_NAMED) {
            OK(MPI_Type_get_contents(type, 64, 64, 64, got_i, got_a, got_d));
            for (int n = 0; n < ni; n++) CHECK(got_i[n] == i[n], "line %d: integer %d is %d", line, n, got_i[n]);
        }
    }
}

#define NUMBERS(type, ...) (sizeof((type[]){__VA_ARGS__}) / sizeof(type)), (const type[]){__VA_ARGS__}
#define I(...) NUMBERS(int, __VA_ARGS__)
#define A(...) NUMBERS(MPI_Aint, __VA_ARGS__)
#define C(...) NUMBERS(MPI_Count, __VA_ARGS__)
#define D(...) NUMBERS(MPI_Datatype, __VA_ARGS__)
#define NONE 0, NULL
/* The call makes `type`; then what it tells, and it goes. */
#define MADE(call, ...) \
    do { \
        OK(call); \
        has(__LINE__, type, __VA_ARGS__); \
        OK(MPI_Type_free(&type)); \
    } while (0)

static const MPI_Datatype old[2] = {MPI_CHAR, MPI_DOUBLE};

static void small_forms(void)
{
    MPI_Datatype type;
    has(__LINE__, MPI_INT, MPI_COMBINER_NAMED, NONE, NONE, NONE, NONE);
    MADE(MPI_Type_dup(MPI_INT, &type), MPI_COMBINER_DUP, NONE, NONE, NONE, D(MPI_INT));
    MADE(MPI_Type_contiguous(7, MPI_INT, &type), MPI_COMBINER_CONTIGUOUS, I(7), NONE, NONE, D(MPI_INT));
    MADE(MPI_Type_vector(2, 3, 4, MPI_INT, &type), MPI_COMBINER_VECTOR, I(2, 3, 4), NONE, NONE, D(MPI_INT));
    MADE(MPI_Type_create_hvector(2, 3, 40, MPI_INT, &type), MPI_COMBINER_HVECTOR, I(2, 3), A(40), NONE, D(MPI_INT));
    MADE(MPI_Type_indexed(2, (int[]){1, 2}, (int[]){3, 4}, MPI_INT, &type), MPI_COMBINER_INDEXED, I(2, 1, 2, 3, 4), NONE, NONE,
         D(MPI_INT));
    MADE(MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){30, 40}, MPI_INT, &type), MPI_COMBINER_HINDEXED, I(2, 1, 2),
         A(30, 40), NONE, D(MPI_INT));
    MADE(MPI_Type_create_indexed_block(2, 5, (int[]){3, 14}, MPI_INT, &type), MPI_COMBINER_INDEXED_BLOCK, I(2, 5, 3, 14), NONE,
         NONE, D(MPI_INT));
    MADE(MPI_Type_create_hindexed_block(2, 5, (MPI_Aint[]){30, 140}, MPI_INT, &type), MPI_COMBINER_HINDEXED_BLOCK, I(2, 5),
         A(30, 140), NONE, D(MPI_INT));
    MADE(MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){0, 8}, old, &type), MPI_COMBINER_STRUCT, I(2, 1, 2), A(0, 8),
         NONE, D(MPI_CHAR, MPI_DOUBLE));
    MADE(MPI_Type_create_resized(MPI_INT, -4, 12, &type), MPI_COMBINER_RESIZED, NONE, A(-4, 12), NONE, D(MPI_INT));
    MADE(MPI_Type_create_subarray(2, (int[]){5, 6}, (int[]){2, 3}, (int[]){1, 0}, MPI_ORDER_C, MPI_INT, &type),
         MPI_COMBINER_SUBARRAY, I(2, 5, 6, 2, 3, 1, 0, MPI_ORDER_C), NONE, NONE, D(MPI_INT));
    MADE(MPI_Type_create_darray(2, 1, 1, (int[]){9}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){3}, (int[]){2}, MPI_ORDER_FORTRAN,
                                MPI_INT, &type),
         MPI_COMBINER_DARRAY, I(2, 1, 1, 9, MPI_DISTRIBUTE_CYCLIC, 3, 2, MPI_ORDER_FORTRAN), NONE, NONE, D(MPI_INT));
}

static void large_forms(void)
{
    MPI_Datatype type;
    MADE(MPI_Type_contiguous_c(7, MPI_INT, &type), MPI_COMBINER_CONTIGUOUS, NONE, NONE, C(7), D(MPI_INT));
    MADE(MPI_Type_vector_c(2, 3, 4, MPI_INT, &type), MPI_COMBINER_VECTOR, NONE, NONE, C(2, 3, 4), D(MPI_INT));
    MADE(MPI_Type_create_hvector_c(2, 3, 40, MPI_INT, &type), MPI_COMBINER_HVECTOR, NONE, NONE, C(2, 3, 40), D(MPI_INT));
    MADE(MPI_Type_indexed_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){3, 4}, MPI_INT, &type), MPI_COMBINER_INDEXED, NONE, NONE,
         C(2, 1, 2, 3, 4), D(MPI_INT));
    MADE(MPI_Type_create_hindexed_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){30, 40}, MPI_INT, &type), MPI_COMBINER_HINDEXED, NONE,
         NONE, C(2, 1, 2, 30, 40), D(MPI_INT));
    MADE(MPI_Type_create_indexed_block_c(2, 5, (MPI_Count[]){3, 14}, MPI_INT, &type), MPI_COMBINER_INDEXED_BLOCK, NONE, NONE,
         C(2, 5, 3, 14), D(MPI_INT));
    MADE(MPI_Type_create_hindexed_block_c(2, 5, (MPI_Count[]){30, 140}, MPI_INT, &type), MPI_COMBINER_HINDEXED_BLOCK, NONE,
         NONE, C(2, 5, 30, 140), D(MPI_INT));
    MADE(MPI_Type_create_struct_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){0, 8}, old, &type), MPI_COMBINER_STRUCT, NONE, NONE,
         C(2, 1, 2, 0, 8), D(MPI_CHAR, MPI_DOUBLE));
    MADE(MPI_Type_create_resized_c(MPI_INT, -4, 12, &type), MPI_COMBINER_RESIZED, NONE, NONE, C(-4, 12), D(MPI_INT));
    MADE(MPI_Type_create_subarray_c(2, (MPI_Count[]){5, 6}, (MPI_Count[]){2, 3}, (MPI_Count[]){1, 0}, MPI_ORDER_C, MPI_INT,
                                    &type),
         MPI_COMBINER_SUBARRAY, I(2, MPI_ORDER_C), NONE, C(5, 6, 2, 3, 1, 0), D(MPI_INT));
    MADE(MPI_Type_create_darray_c(2, 1, 1, (MPI_Count[]){9}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){3}, (int[]){2},
                                  MPI_ORDER_FORTRAN, MPI_INT, &type),
         MPI_COMBINER_DARRAY, I(2, 1, 1, MPI_DISTRIBUTE_CYCLIC, 3, 2, MPI_ORDER_FORTRAN), NONE, C(9), D(MPI_INT));
}

/* A type inside comes as a handle of its own. */
static void types_inside(void)
{
    MPI_Datatype type, inner;
    int integers[1];
    MPI_Aint addresses[1];
    MPI_Aint lb, extent;
    OK(MPI_Type_create_resized(MPI_INT, 0, 24, &inner));
    OK(MPI_Type_contiguous(2, inner, &type));
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_get_contents(type, 1, 0, 1, integers, addresses, &inner));
    OK(MPI_Type_get_extent(inner, &lb, &extent));
    CHECK(lb == 0 && extent == 24, "bounds %d, %d of the type inside", (int)lb, (int)extent);
    has(__LINE__, inner, MPI_COMBINER_RESIZED, NONE, A(0, 24), NONE, D(MPI_INT));
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_free(&type));
}

/* Types by precision: predefined, so the same call gives the same handle and none can be freed. */
static void types_by_precision(void)
{
    MPI_Datatype type, inner;
    int size;
    OK(MPI_Type_create_f90_real(6, 30, &type));
    OK(MPI_Type_create_f90_real(6, 30, &inner));
    CHECK(type == inner, "the handles differ");
    OK(MPI_Type_size(type, &size));
    CHECK(size == 4, "size %d of 6 digits", size);
    has(__LINE__, type, MPI_COMBINER_F90_REAL, I(6, 30), NONE, NONE, NONE);
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == 8, "size %d of 15 digits", size);
    OK(MPI_Type_create_f90_complex(15, 300, &type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == 16, "size %d of a complex number of 15 digits", size);
    has(__LINE__, type, MPI_COMBINER_F90_COMPLEX, I(15, 300), NONE, NONE, NONE);
    OK(MPI_Type_create_f90_integer(9, &type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == 4, "size %d of an integer of 9 digits", size);
    has(__LINE__, type, MPI_COMBINER_F90_INTEGER, I(9), NONE, NONE, NONE);
    /* The contents of other types name them as they are. */
    OK(MPI_Type_contiguous(3, type, &inner));
    has(__LINE__, inner, MPI_COMBINER_CONTIGUOUS, I(3), NONE, NONE, D(type));
    OK(MPI_Type_free(&inner));
    int one = 20, sum = 0;
    OK(MPI_Allreduce(&one, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == 20 * check_size, "sum %d", sum);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    small_forms();
    large_forms();
    types_inside();
    types_by_precision();
    return check_end();
}
