/* Delete functions see the object's other attributes, refuse, and end a session (MPI-5.0, 7.7, 11.4.1). */
#include "check.h"

static int first, second, numbers[] = {0, 1, 2};
static int deleted[8], deleted_count;
static int refuses;

static void *const value_of_first = &numbers[1];

static int on_delete(int number)
{
    if (deleted_count < 8) deleted[deleted_count++] = number;
    return MPI_SUCCESS;
}

/* The attribute under `first` was set before the one under `second`. */
#define DELETE_FUNCTIONS(kind, handle) \
    static int delete_first_##kind(handle object, int key, void *value, void *extra) \
    { \
        (void)object, (void)key, (void)extra; \
        return on_delete(*(int *)value); \
    } \
    static int delete_second_##kind(handle object, int key, void *value, void *extra) \
    { \
        void *found = NULL; \
        int flag = 0; \
        (void)key, (void)extra; \
        if (refuses) return MPI_ERR_OTHER; \
        OK(MPI_##kind##_get_attr(object, first, &found, &flag)); \
        CHECK(flag && found == value_of_first, "flag %d, value %p", flag, found); \
        return on_delete(*(int *)value); \
    }

DELETE_FUNCTIONS(Comm, MPI_Comm)
DELETE_FUNCTIONS(Type, MPI_Datatype)
DELETE_FUNCTIONS(Win, MPI_Win)

static void check_deleted(int line, int count, int a, int b)
{
    const int wanted[] = {a, b};
    CHECK(deleted_count == count, "line %d: %d deleted, not %d", line, deleted_count, count);
    for (int i = 0; i < count; i++)
        CHECK(deleted[i] == wanted[i], "line %d: %d, not %d", line, deleted[i], wanted[i]);
    deleted_count = 0;
}

#define DELETED(count, a, b) check_deleted(__LINE__, count, a, b)

/* Two attributes on an object that is then freed. */
#define CHECK_KIND(kind, null_copy_function, object) \
    do { \
        OK(MPI_##kind##_create_keyval(null_copy_function, delete_first_##kind, &first, NULL)); \
        OK(MPI_##kind##_create_keyval(null_copy_function, delete_second_##kind, &second, NULL)); \
        OK(MPI_##kind##_set_attr(object, first, value_of_first)); \
        OK(MPI_##kind##_set_attr(object, second, &numbers[2])); \
        OK(MPI_##kind##_free(&object)); \
        OK(MPI_##kind##_free_keyval(&first)); \
        OK(MPI_##kind##_free_keyval(&second)); \
    } while (0)

static void check_others_are_there(void)
{
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Win win;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_KIND(Comm, MPI_COMM_NULL_COPY_FN, comm);
    DELETED(2, 2, 1);
    OK(MPI_Type_dup(MPI_INT, &type));
    CHECK_KIND(Type, MPI_TYPE_NULL_COPY_FN, type);
    deleted_count = 0; /* the order is defined for communicators only */
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_KIND(Win, MPI_WIN_NULL_COPY_FN, win);
    deleted_count = 0;
}

/* One refuses: the communicator and the attributes stay. */
static void check_refusal(void)
{
    MPI_Comm comm;
    void *value;
    int flag = 0;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_first_Comm, &first, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_second_Comm, &second, NULL));
    OK(MPI_Comm_set_attr(comm, first, value_of_first));
    OK(MPI_Comm_set_attr(comm, second, &numbers[2]));
    refuses = 1;
    FAILS(MPI_Comm_free(&comm), MPI_ERR_OTHER);
    refuses = 0;
    DELETED(0, 0, 0);
    OK(MPI_Comm_get_attr(comm, first, &value, &flag));
    CHECK(flag, "an attribute is lost");
    OK(MPI_Comm_get_attr(comm, second, &value, &flag));
    CHECK(flag, "the attribute that was not to be deleted is lost");
    OK(MPI_Comm_free(&comm));
    DELETED(2, 2, 1);
    OK(MPI_Comm_free_keyval(&first));
    OK(MPI_Comm_free_keyval(&second));
}

/* An attribute is found by its key until it is deleted, though the key was freed. */
static void check_freed_key(void)
{
    MPI_Comm comm, copy;
    void *value;
    int key, kept, flag = 0;
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete_first_Comm, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_attr(comm, key, value_of_first));
    kept = key;
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Comm_free(&comm));
    DELETED(1, 1, 0);
    OK(MPI_Comm_get_attr(copy, kept, &value, &flag));
    CHECK(flag && value == value_of_first, "flag %d", flag);
    OK(MPI_Comm_free(&copy));
    DELETED(1, 1, 0);
}

static int ended;

/* As a library does that uses sessions: MPI_Finalize ends its own. */
static int end_session(MPI_Comm comm, int key, void *session, void *extra)
{
    int flag = -1, one = 1, sum = 0;
    MPI_Session another;
    (void)comm, (void)key, (void)extra;
    OK(MPI_Finalized(&flag));
    CHECK(flag == 0, "MPI has ended before the delete functions");
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == check_size, "%d of %d ranks", sum, check_size);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &another));
    OK(MPI_Session_finalize(&another));
    OK(MPI_Session_finalize(session));
    ended++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Session session;
    int key, failed;
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    check_others_are_there();
    check_refusal();
    check_freed_key();
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_session, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &session));
    OK(MPI_Comm_free_keyval(&key));
    failed = check_end();
    return failed || check_errors || ended != 1;
}
