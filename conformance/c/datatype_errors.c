/* Wrong arguments of datatypes, packing and local reductions: the class of each error, and no crash. */
#include "check.h"

static int one[1] = {1}, negative[1] = {-1}, memory[8];
static MPI_Aint at[1];

/* A type that is none, or was freed. */
static void no_type(void)
{
    MPI_Datatype type, freed;
    MPI_Aint a, b;
    int n, position = 0;
    OK(MPI_Type_contiguous(2, MPI_INT, &freed));
    type = freed;
    OK(MPI_Type_free(&type));
    for (int i = 0; i < 2; i++) {
        MPI_Datatype bad = i ? freed : MPI_DATATYPE_NULL;
        FAILS(MPI_Type_contiguous(1, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_vector(1, 1, 1, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_hvector(1, 1, 1, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_indexed(1, one, one, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_hindexed(1, one, at, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_indexed_block(1, 1, one, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_hindexed_block(1, 1, at, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_struct(1, one, at, &bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_resized(bad, 0, 8, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_subarray(1, (int[]){4}, one, one, MPI_ORDER_C, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_create_darray(1, 0, 1, (int[]){4}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){MPI_DISTRIBUTE_DFLT_DARG},
                                     one, MPI_ORDER_C, bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_dup(bad, &type), MPI_ERR_TYPE);
        FAILS(MPI_Type_size(bad, &n), MPI_ERR_TYPE);
        FAILS(MPI_Type_get_extent(bad, &a, &b), MPI_ERR_TYPE);
        FAILS(MPI_Type_get_true_extent(bad, &a, &b), MPI_ERR_TYPE);
        FAILS(MPI_Type_get_envelope(bad, &n, &n, &n, &n), MPI_ERR_TYPE);
        type = bad;
        FAILS(MPI_Type_commit(&type), MPI_ERR_TYPE);
        FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
        FAILS(MPI_Pack_size(1, bad, MPI_COMM_WORLD, &n), MPI_ERR_TYPE);
        FAILS(MPI_Pack(memory, 1, bad, memory, 8, &position, MPI_COMM_WORLD), MPI_ERR_TYPE);
        FAILS(MPI_Unpack(memory, 8, &position, memory, 1, bad, MPI_COMM_WORLD), MPI_ERR_TYPE);
        FAILS(MPI_Send(memory, 1, bad, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    }
}

/* Negative counts and lengths. */
static void negative_counts(void)
{
    MPI_Datatype type;
    int n, position = 0;
    FAILS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_contiguous_c(-1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_vector(-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hvector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_indexed(-1, one, one, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed(1, negative, one, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hindexed(1, negative, at, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_indexed_block(1, -1, one, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_struct(-1, one, at, &type, &type), MPI_ERR_COUNT);
    FAILS(MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &n), MPI_ERR_COUNT);
    FAILS(MPI_Pack(memory, -1, MPI_INT, memory, 8, &position, MPI_COMM_WORLD), MPI_ERR_COUNT);
}

/* Arrays that are none, parts outside, grids that do not fit. */
static void wrong_arrays(void)
{
    MPI_Datatype type;
    FAILS(MPI_Type_create_subarray(0, one, one, one, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_subarray(1, (int[]){4}, (int[]){3}, (int[]){2}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_subarray(1, (int[]){4}, one, one, 99, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_darray(3, 0, 1, (int[]){9}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){MPI_DISTRIBUTE_DFLT_DARG},
                                 (int[]){2}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_darray(2, 2, 1, (int[]){9}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){MPI_DISTRIBUTE_DFLT_DARG},
                                 (int[]){2}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_darray(2, 0, 1, (int[]){9}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){4}, (int[]){2}, MPI_ORDER_C,
                                 MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_real(100, 5, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_f90_integer(100, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
}

/* Predefined types stay; they have no contents. */
static void predefined_stay(void)
{
    MPI_Datatype type;
    type = MPI_INT;
    FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
    CHECK(type == MPI_INT, "a refused free changed the handle");
    FAILS(MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL), MPI_ERR_TYPE);
    OK(MPI_Type_create_f90_integer(9, &type));
    FAILS(MPI_Type_free(&type), MPI_ERR_TYPE);
}

/* Not committed. */
static void not_committed(void)
{
    MPI_Datatype type, open;
    MPI_Aint a;
    OK(MPI_Type_contiguous(2, MPI_INT, &open));
    FAILS(MPI_Send(memory, 1, open, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    FAILS(MPI_Recv(memory, 1, open, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    FAILS(MPI_Bcast(memory, 1, open, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_contents(open, 0, 0, 1, memory, &a, &type), MPI_ERR_ARG);
    OK(MPI_Type_commit(&open));
    OK(MPI_Type_commit(&open)); /* again is nothing */
    OK(MPI_Send(memory, 1, open, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Type_free(&open));
}

/* Buffers of packed bytes that are too small, and none. */
static void small_buffers(void)
{
    MPI_Aint a;
    int position = 0;
    position = 5;
    FAILS(MPI_Pack(memory, 1, MPI_INT, memory + 4, 8, &position, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    CHECK(position == 5, "a refused pack moved the position to %d", position);
    FAILS(MPI_Unpack(memory, 8, &position, memory + 4, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    position = 9;
    FAILS(MPI_Unpack(memory, 8, &position, memory + 4, 0, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG);
    position = -1;
    FAILS(MPI_Pack(memory, 1, MPI_INT, memory + 4, 8, &position, MPI_COMM_WORLD), MPI_ERR_ARG);
    position = 0;
    FAILS(MPI_Pack(NULL, 1, MPI_INT, memory, 8, &position, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    FAILS(MPI_Pack(memory, 1, MPI_INT, memory + 4, 8, &position, MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Pack_external_size("internal", 1, MPI_INT, &a), MPI_ERR_ARG);
}

/* Operations on types they are not defined on. */
static void undefined_operations(void)
{
    MPI_Datatype open;
    OK(MPI_Type_contiguous(2, MPI_INT, &open));
    OK(MPI_Type_commit(&open));
    FAILS(MPI_Reduce_local(memory, memory + 4, 1, open, MPI_SUM), MPI_ERR_OP);
    FAILS(MPI_Reduce_local(memory, memory + 4, 1, MPI_FLOAT, MPI_BAND), MPI_ERR_OP);
    FAILS(MPI_Reduce_local(memory, memory + 4, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
    FAILS(MPI_Reduce_local(memory, memory + 4, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    FAILS(MPI_Reduce_local(MPI_IN_PLACE, memory, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_local(memory, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    OK(MPI_Type_free(&open));
}

/* More than memory holds. */
static void too_large(void)
{
    MPI_Datatype type;
    {
        MPI_Datatype huge;
        OK(MPI_Type_contiguous_c((MPI_Count)1 << 60, MPI_CHAR, &huge));
        FAILS(MPI_Type_contiguous_c(1 << 10, huge, &type), MPI_ERR_COUNT);
        FAILS(MPI_Type_create_hvector_c(2, 1, INT64_MAX, huge, &type), MPI_ERR_COUNT);
        OK(MPI_Type_commit(&huge));
        FAILS(MPI_Send_c(memory, 1 << 10, huge, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
        OK(MPI_Type_free(&huge));
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    no_type();
    negative_counts();
    wrong_arrays();
    predefined_stay();
    not_committed();
    small_buffers();
    undefined_operations();
    too_large();
    return check_end();
}
