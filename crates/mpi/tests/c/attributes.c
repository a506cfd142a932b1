/* Attributes of communicators and datatypes: the user's functions are called as the standard says. */
#include "check.h"

static int copies, deletes, order[8], refuse;
static int extra = 42;

static int on_copy(MPI_Datatype type, int key, void *state, void *in, void *out, int *flag)
{
    int size;
    (void)key;
    CHECK(state == &extra);
    OK(MPI_Type_size(type, &size)); CHECK(size == 4);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Datatype type, int key, void *value, void *state)
{
    (void)type; (void)key; (void)state; (void)value;
    deletes++;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int on_comm_delete(MPI_Comm comm, int key, void *value, void *state)
{
    int rank;
    (void)key; (void)state;
    OK(MPI_Comm_rank(comm, &rank)); /* MPI still works, also in MPI_Finalize */
    order[deletes++] = *(int *)value;
    return MPI_SUCCESS;
}

int main(void)
{
    int key, plain, none, comm_key, flag, *integer, values[3] = {1, 2, 3}, keys[3];
    void *value;
    MPI_Datatype copy;

    start();
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &integer, &flag)); CHECK(flag && *integer >= 32767);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &integer, &flag)); CHECK(flag && (*integer == 0 || *integer == 1));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &integer, &flag)); CHECK(!flag || *integer >= 1);
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_IO, &integer, &flag)); CHECK(flag);
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL));
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &value, &flag));

    OK(MPI_Type_create_keyval(on_copy, on_delete, &key, &extra));
    OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &plain, NULL));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &none, NULL));
    OK(MPI_Type_set_attr(MPI_INT, key, (void *)10));
    OK(MPI_Type_set_attr(MPI_INT, plain, (void *)20));
    OK(MPI_Type_set_attr(MPI_INT, none, (void *)30));
    OK(MPI_Type_dup(MPI_INT, &copy)); CHECK(copies == 1);
    OK(MPI_Type_get_attr(copy, key, &value, &flag)); CHECK(flag && value == (void *)11);
    OK(MPI_Type_get_attr(copy, plain, &value, &flag)); CHECK(flag && value == (void *)20);
    OK(MPI_Type_get_attr(copy, none, &value, &flag)); CHECK(!flag);
    OK(MPI_Type_set_attr(copy, key, (void *)12)); CHECK(deletes == 1);
    refuse = 1;
    FAILS(MPI_ERR_OTHER, MPI_Type_delete_attr(copy, key));
    OK(MPI_Type_get_attr(copy, key, &value, &flag)); CHECK(flag && value == (void *)12);
    refuse = 0;
    MPI_Type_free_keyval(&key); CHECK(key == MPI_KEYVAL_INVALID);
    deletes = 0;
    OK(MPI_Type_free(&copy)); CHECK(deletes == 1 && copy == MPI_DATATYPE_NULL);
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, plain, NULL));
    OK(MPI_Type_delete_attr(MPI_INT, plain));
    FAILS(MPI_ERR_KEYVAL, MPI_Type_delete_attr(MPI_INT, plain));
    OK(MPI_Type_free_keyval(&plain));
    OK(MPI_Type_free_keyval(&none));

    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_comm_delete, &comm_key, NULL));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_comm_delete, &keys[i], NULL));
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], &values[i]));
    }
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, comm_key, &values[0]));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, comm_key, &value, &flag)); CHECK(flag && value == &values[0]);
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, comm_key));
    OK(MPI_Comm_free_keyval(&comm_key));
    deletes = 0;
    OK(MPI_Finalize());
    CHECK(deletes == 3 && order[0] == 3 && order[1] == 2 && order[2] == 1);
    return failures ? 1 : 0;
}
