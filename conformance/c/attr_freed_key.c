/* An attribute can be deleted after its key was freed, with its delete function (MPI-5.0, 7.7.2). */
#include "check.h"

static int deleted;

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int key = MPI_KEYVAL_INVALID, copy, one = 1, ten = 10;
    MPI_Comm comm;
    check_start(&argc, &argv);
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, on_delete, &key, NULL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &one));
    OK(MPI_Comm_set_attr(comm, key, &ten));
    copy = key;
    OK(MPI_Comm_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID && deleted == 0, "key %d, deleted %d", key, deleted);
    key = copy; /* attributes use it: freed again, it stays as it is */
    OK(MPI_Comm_free_keyval(&key));
    FAILS(MPI_Comm_set_attr(comm, copy, &one), MPI_ERR_KEYVAL);
    OK(MPI_Comm_delete_attr(MPI_COMM_SELF, copy));
    CHECK(deleted == 1, "deleted %d", deleted);
    OK(MPI_Comm_free(&comm));
    CHECK(deleted == 11, "deleted %d", deleted);
    key = copy; /* no attribute uses it any more */
    FAILS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    return check_end();
}
