/* Every predefined operation on every type it is defined for, against a plain loop. Also in MPI_Reduce_local. */
#include "check.h"

#include <complex.h>
#include <stdbool.h>

#define ELEMENTS 37

static const char *op_name;

/* Element i of rank r: small, of both signs where the type has them; +-1 from rank 7 on, so that products stay exact. */
static long seed_value(int r, int i) { return r < 7 ? (r * 7 + i * 3) % 11 - 4 + (i % 2) : i % 2 * 2 - 1; }

/* A function per type and operation: folds with EXPRESSION of a (so far) and b (the next rank's) and compares. */
#define TEST(function, name, C, MPI, EXPRESSION) \
    static void function(MPI_Op op) \
    { \
        C mine[ELEMENTS], all[ELEMENTS], upto[ELEMENTS], local[ELEMENTS], got[ELEMENTS]; \
        MPI_Request request; \
        /* Padding of long double: valgrind follows it into memory that others write, too. */ \
        memset(mine, 0, sizeof mine); \
        for (int i = 0; i < ELEMENTS; i++) { \
            mine[i] = (C)seed_value(check_rank, i); \
            C a = (C)seed_value(0, i); \
            upto[i] = a; \
            for (int r = 1; r < check_size; r++) { \
                C b = (C)seed_value(r, i); \
                a = (C)(EXPRESSION); \
                if (r == check_rank) upto[i] = a; \
            } \
            all[i] = a; \
            a = (C)seed_value(1, i); \
            C b = mine[i]; \
            local[i] = (C)(EXPRESSION); \
        } \
        OK(MPI_Allreduce(mine, got, ELEMENTS, MPI, op, MPI_COMM_WORLD)); \
        SAME("Allreduce", name, all); \
        OK(MPI_Reduce(mine, got, ELEMENTS, MPI, op, check_size - 1, MPI_COMM_WORLD)); \
        if (check_rank == check_size - 1) SAME("Reduce", name, all); \
        OK(MPI_Scan(mine, got, ELEMENTS, MPI, op, MPI_COMM_WORLD)); \
        SAME("Scan", name, upto); \
        OK(MPI_Iallreduce(mine, got, ELEMENTS, MPI, op, MPI_COMM_WORLD, &request)); \
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE)); \
        SAME("Iallreduce", name, all); \
        for (int i = 0; i < ELEMENTS; i++) { \
            got[i] = mine[i]; \
            mine[i] = (C)seed_value(1, i); \
        } \
        OK(MPI_Reduce_local(mine, got, ELEMENTS, MPI, op)); \
        SAME("Reduce_local", name, local); \
    }

/* By value: long double has padding, and zero two signs. */
#define SAME(what, name, wanted) \
    for (int i = 0; i < ELEMENTS; i++) \
        if (got[i] != wanted[i]) { \
            CHECK(0, "%s %s of %s: element %d", what, op_name, name, i); \
            break; \
        }

#define EXPR_MAX (a > b ? a : b)
#define EXPR_MIN (a < b ? a : b)
#define EXPR_SUM (a + b)
#define EXPR_PROD (a * b)
#define EXPR_LAND (a && b)
#define EXPR_LOR (a || b)
#define EXPR_LXOR (!a != !b)
#define EXPR_BAND (a & b)
#define EXPR_BOR (a | b)
#define EXPR_BXOR (a ^ b)

#define ARITHMETIC(F, N, C, MPI) F(MAX, N, C, MPI) F(MIN, N, C, MPI) F(SUM, N, C, MPI) F(PROD, N, C, MPI)
#define LOGICAL(F, N, C, MPI) F(LAND, N, C, MPI) F(LOR, N, C, MPI) F(LXOR, N, C, MPI)
#define BITWISE(F, N, C, MPI) F(BAND, N, C, MPI) F(BOR, N, C, MPI) F(BXOR, N, C, MPI)

#define INTEGER(F, N, C, MPI) ARITHMETIC(F, N, C, MPI) LOGICAL(F, N, C, MPI) BITWISE(F, N, C, MPI)
#define INTEGERS(F) \
    INTEGER(F, SIGNED_CHAR, signed char, MPI_SIGNED_CHAR) \
    INTEGER(F, UNSIGNED_CHAR, unsigned char, MPI_UNSIGNED_CHAR) \
    INTEGER(F, SHORT, short, MPI_SHORT) \
    INTEGER(F, UNSIGNED_SHORT, unsigned short, MPI_UNSIGNED_SHORT) \
    INTEGER(F, INT, int, MPI_INT) \
    INTEGER(F, UNSIGNED, unsigned, MPI_UNSIGNED) \
    INTEGER(F, LONG, long, MPI_LONG) \
    INTEGER(F, UNSIGNED_LONG, unsigned long, MPI_UNSIGNED_LONG) \
    INTEGER(F, LONG_LONG, long long, MPI_LONG_LONG) \
    INTEGER(F, UNSIGNED_LONG_LONG, unsigned long long, MPI_UNSIGNED_LONG_LONG) \
    INTEGER(F, INT8_T, int8_t, MPI_INT8_T) \
    INTEGER(F, INT16_T, int16_t, MPI_INT16_T) \
    INTEGER(F, INT32_T, int32_t, MPI_INT32_T) \
    INTEGER(F, INT64_T, int64_t, MPI_INT64_T) \
    INTEGER(F, UINT8_T, uint8_t, MPI_UINT8_T) \
    INTEGER(F, UINT16_T, uint16_t, MPI_UINT16_T) \
    INTEGER(F, UINT32_T, uint32_t, MPI_UINT32_T) \
    INTEGER(F, UINT64_T, uint64_t, MPI_UINT64_T)
/* MPI_AINT, MPI_COUNT and MPI_OFFSET are both C and Fortran integers: arithmetic and bits, no logic. */
#define ADDRESSES(F) \
    ARITHMETIC(F, AINT, MPI_Aint, MPI_AINT) \
    BITWISE(F, AINT, MPI_Aint, MPI_AINT) \
    ARITHMETIC(F, COUNT, MPI_Count, MPI_COUNT) \
    BITWISE(F, COUNT, MPI_Count, MPI_COUNT) \
    ARITHMETIC(F, OFFSET, MPI_Offset, MPI_OFFSET) \
    BITWISE(F, OFFSET, MPI_Offset, MPI_OFFSET)
#define FLOATS(F) \
    ARITHMETIC(F, FLOAT, float, MPI_FLOAT) \
    ARITHMETIC(F, DOUBLE, double, MPI_DOUBLE) \
    ARITHMETIC(F, LONG_DOUBLE, long double, MPI_LONG_DOUBLE)
#define COMPLEXES(F) \
    F(SUM, C_FLOAT_COMPLEX, float _Complex, MPI_C_FLOAT_COMPLEX) \
    F(PROD, C_FLOAT_COMPLEX, float _Complex, MPI_C_FLOAT_COMPLEX) \
    F(SUM, C_DOUBLE_COMPLEX, double _Complex, MPI_C_DOUBLE_COMPLEX) \
    F(PROD, C_DOUBLE_COMPLEX, double _Complex, MPI_C_DOUBLE_COMPLEX)
#define OTHERS(F) \
    LOGICAL(F, C_BOOL, bool, MPI_C_BOOL) \
    BITWISE(F, BYTE, unsigned char, MPI_BYTE)
#define EVERYTHING(F) INTEGERS(F) ADDRESSES(F) FLOATS(F) COMPLEXES(F) OTHERS(F)

#define DEFINE(OP, N, C, MPI) TEST(test_##OP##_##N, "MPI_" #N, C, MPI, EXPR_##OP)
#define CALL(OP, N, C, MPI) op_name = "MPI_" #OP; test_##OP##_##N(MPI_##OP);

EVERYTHING(DEFINE)

/* What an operation is not defined for must be refused, not computed. */
static void refused(void)
{
    double a = 1, b = 0;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int code = MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_OP || class == MPI_ERR_TYPE, "MPI_BAND of doubles: %s", check_error_text(code));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* Operations that hold on to order: REPLACE and NO_OP belong to one-sided calls, but are known to Op_commutative. */
static void commutative(void)
{
    MPI_Op ops[] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR,
                    MPI_MINLOC, MPI_MAXLOC};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        int yes = 0;
        OK(MPI_Op_commutative(ops[i], &yes));
        CHECK(yes, "predefined operation %zu is not commutative", i);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    EVERYTHING(CALL)
    refused();
    commutative();
    return check_end();
}
