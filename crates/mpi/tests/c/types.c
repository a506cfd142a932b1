/* Predefined datatypes, operations of the library's and of the user's, counts in a status. */
#include "check.h"
#include <stddef.h>
#include <wchar.h>

struct double_int { double value; int index; };

static MPI_Datatype seen;

static void subtract(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size;
    OK(MPI_Type_size(*type, &size)); CHECK(size == sizeof(int)); /* an operation may ask for datatypes */
    seen = *type;
    for (int i = 0; i < *count; i++) ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
}

static void subtract_c(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    (void)type;
    for (MPI_Count i = 0; i < *count; i++) ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
}

int main(void)
{
    int size, length, flag, integers, addresses, types, combiner, a[3] = {5, 6, 7}, b[3] = {1, 2, 3};
    MPI_Aint lb, extent, address;
    MPI_Count count;
    MPI_Datatype type, copy, old;
    MPI_Op op;
    MPI_Status status;
    char name[MPI_MAX_OBJECT_NAME];
    struct double_int x = {1.5, 3}, y = {1.5, 2};

    start();
    OK(MPI_Type_size(MPI_INT, &size)); CHECK(size == sizeof(int));
    OK(MPI_Type_size(MPI_LONG_DOUBLE, &size)); CHECK(size == sizeof(long double));
    OK(MPI_Type_size(MPI_WCHAR, &size)); CHECK(size == sizeof(wchar_t));
    OK(MPI_Type_size(MPI_COUNT, &size)); CHECK(size == sizeof(MPI_Count));
    OK(MPI_Type_get_extent(MPI_DOUBLE_INT, &lb, &extent)); CHECK(lb == 0 && extent == sizeof(struct double_int));
    OK(MPI_Type_get_true_extent(MPI_DOUBLE_INT, &lb, &extent));
    CHECK(lb == 0 && extent == offsetof(struct double_int, index) + sizeof(int));
    OK(MPI_Type_size_c(MPI_DOUBLE_INT, &count)); CHECK(count == sizeof(double) + sizeof(int));
    OK(MPI_Get_address(&a[1], &address)); CHECK(address == (MPI_Aint)&a[1]);
    OK(MPI_Type_get_name(MPI_DOUBLE, name, &length)); CHECK(!strcmp(name, "MPI_DOUBLE"));
    OK(MPI_Type_get_name(MPI_C_COMPLEX, name, &length)); CHECK(!strcmp(name, "MPI_C_FLOAT_COMPLEX"));
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type)); CHECK(type == MPI_REAL8);
    FAILS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type));
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type)); CHECK(type == MPI_DOUBLE_INT);
    OK(MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type)); CHECK(type == MPI_DATATYPE_NULL);
    FAILS(MPI_ERR_TYPE, MPI_Type_size(MPI_DATATYPE_NULL, &size));
    FAILS(MPI_ERR_TYPE, MPI_Type_size((MPI_Datatype)MPI_COMM_WORLD, &size));
    type = MPI_INT;
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&type));
    OK(MPI_Type_commit(&type));

    OK(MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner)); CHECK(combiner == MPI_COMBINER_NAMED);
    FAILS(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 0, 0, 1, NULL, NULL, &old));
    OK(MPI_Type_dup(MPI_INT, &copy));
    OK(MPI_Type_set_name(copy, "number"));
    OK(MPI_Type_get_name(copy, name, &length)); CHECK(!strcmp(name, "number"));
    OK(MPI_Type_get_envelope(copy, &integers, &addresses, &types, &combiner)); CHECK(combiner == MPI_COMBINER_DUP && types == 1);
    OK(MPI_Type_get_contents(copy, 0, 0, 1, NULL, NULL, &old)); CHECK(old == MPI_INT);

    OK(MPI_Reduce_local(a, b, 3, MPI_INT, MPI_SUM)); CHECK(b[0] == 6 && b[2] == 10);
    OK(MPI_Reduce_local(&x, &y, 1, MPI_DOUBLE_INT, MPI_MINLOC)); CHECK(y.index == 2);
    FAILS(MPI_ERR_OP, MPI_Reduce_local(a, b, 3, MPI_FLOAT, MPI_BAND));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(a, b, 3, MPI_INT, MPI_OP_NULL));
    FAILS(MPI_ERR_COUNT, MPI_Reduce_local(a, b, -1, MPI_INT, MPI_SUM));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce_local(NULL, b, 1, MPI_INT, MPI_SUM));
    OK(MPI_Op_commutative(MPI_SUM, &flag)); CHECK(flag);
    OK(MPI_Op_create(subtract, 0, &op));
    OK(MPI_Op_commutative(op, &flag)); CHECK(!flag);
    OK(MPI_Reduce_local(a, b, 3, copy, op)); CHECK(b[0] == -1 && b[2] == -3 && seen == copy);
    OK(MPI_Op_free(&op)); CHECK(op == MPI_OP_NULL);
    OK(MPI_Op_create_c(subtract_c, 1, &op));
    OK(MPI_Reduce_local_c(a, b, 3, MPI_INT, op)); CHECK(b[0] == 6 && b[2] == 10);
    OK(MPI_Op_free(&op));
    op = MPI_SUM;
    FAILS(MPI_ERR_OP, MPI_Op_free(&op));
    OK(MPI_Type_free(&copy));

    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements(&status, MPI_DOUBLE_INT, 3));
    OK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &length)); CHECK(length == 3);
    OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &length)); CHECK(length == MPI_UNDEFINED);
    OK(MPI_Get_count(&status, MPI_BYTE, &length)); CHECK(length == 12 + 8 /* pairs travel without their padding */);
    OK(MPI_Status_set_elements_c(&status, MPI_INT, (MPI_Count)1 << 40));
    OK(MPI_Get_count_c(&status, MPI_INT, &count)); CHECK(count == (MPI_Count)1 << 40);
    OK(MPI_Get_count(&status, MPI_INT, &length)); CHECK(length == MPI_UNDEFINED);
    OK(MPI_Status_set_cancelled(&status, 1));
    OK(MPI_Test_cancelled(&status, &flag)); CHECK(flag);
    OK(MPI_Status_set_source(&status, 7)); OK(MPI_Status_get_source(&status, &length)); CHECK(length == 7 && status.MPI_SOURCE == 7);
    OK(MPI_Status_set_tag(&status, 8)); CHECK(status.MPI_TAG == 8);
    OK(MPI_Status_set_error(&status, 9)); CHECK(status.MPI_ERROR == 9);
    FAILS(MPI_ERR_ARG, MPI_Status_set_tag(MPI_STATUS_IGNORE, 8));
    return finish();
}
