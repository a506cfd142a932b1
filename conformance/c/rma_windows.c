/* What hangs on windows, and what calls refuse: attributes, names, hints, handlers, wrong arguments, wrong epochs. */
#include "check.h"
#include <signal.h>
#include <sys/resource.h>

static int deleted, handled;

static int on_delete(MPI_Win win, int keyval, void *value, void *extra)
{
    (void)win, (void)keyval;
    CHECK(value == &deleted && extra == &handled, "the delete function's arguments");
    deleted++;
    return MPI_SUCCESS;
}

static void on_error(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
    handled++;
}

static void attributes(MPI_Win win, void *base, MPI_Aint size, int unit, int flavor)
{
    void *value = NULL;
    int flag = 0, key = MPI_KEYVAL_INVALID;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag && value == base, "base");
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag));
    CHECK(flag && *(MPI_Aint *)value == size, "size %ld", flag ? (long)*(MPI_Aint *)value : -1);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
    CHECK(flag && *(int *)value == unit, "unit");
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    CHECK(flag && *(int *)value == flavor, "flavor");
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
    CHECK(flag && (*(int *)value == MPI_WIN_UNIFIED || *(int *)value == MPI_WIN_SEPARATE), "model");
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, &handled));
    OK(MPI_Win_set_attr(win, key, &deleted));
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    CHECK(flag && value == &deleted, "our own attribute");
    int before = deleted;
    OK(MPI_Win_delete_attr(win, key));
    CHECK(deleted == before + 1, "the delete function was not called");
    OK(MPI_Win_set_attr(win, key, &deleted));
    OK(MPI_Win_free_keyval(&key));
    FAILS(MPI_Win_set_attr(win, MPI_WIN_SIZE, NULL), MPI_ERR_KEYVAL);
}

static void names_and_hints(MPI_Win win)
{
    char text[MPI_MAX_OBJECT_NAME], value[MPI_MAX_INFO_VAL + 1];
    int length = -1, flag = 0, n = sizeof value;
    MPI_Info info, used;
    MPI_Group group, world;
    int result = MPI_UNEQUAL;
    OK(MPI_Win_get_name(win, text, &length));
    CHECK(length == 0, "a new window has a name");
    OK(MPI_Win_set_name(win, "halo"));
    OK(MPI_Win_get_name(win, text, &length));
    CHECK(length == 4 && strcmp(text, "halo") == 0, "name %s", text);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "no_locks", "true"));
    OK(MPI_Info_set(info, "unheard_of", "1"));
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Win_get_info(win, &used));
    OK(MPI_Info_get_string(used, "no_locks", &n, value, &flag));
    CHECK(flag && strcmp(value, "true") == 0, "no_locks");
    OK(MPI_Info_free(&used));
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result));
    CHECK(result == MPI_IDENT, "the group");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

static void handlers(MPI_Win win)
{
    MPI_Errhandler mine, got;
    OK(MPI_Win_create_errhandler(on_error, &mine));
    OK(MPI_Win_set_errhandler(win, mine));
    OK(MPI_Win_get_errhandler(win, &got));
    CHECK(got == mine, "the handler");
    OK(MPI_Errhandler_free(&got));
    int before = handled;
    FAILS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    CHECK(handled == before + 1, "the handler was called %d times", handled - before);
    OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK(handled == before + 2, "the handler was not called");
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine));
}

static void wrong_epochs(MPI_Win win)
{
    int value = 1, flag;
    MPI_Group group;
    OK(MPI_Win_get_group(win, &group));
    FAILS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Get(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_start(group, 0, win), MPI_ERR_RMA_SYNC);
    if (check_size > 1) {
        int other = (check_rank + 1) % check_size;
        FAILS(MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC);
    }
    MPI_Win copy = win;
    FAILS(MPI_Win_free(&copy), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(check_rank, win));
    OK(MPI_Win_post(group, MPI_MODE_NOCHECK, win));
    FAILS(MPI_Win_post(group, MPI_MODE_NOCHECK, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_start(group, MPI_MODE_NOCHECK, win));
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    OK(MPI_Group_free(&group));
}

static void wrong_arguments(MPI_Win win, int ints)
{
    int values[4] = {0};
    MPI_Datatype uncommitted;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    FAILS(MPI_Put(values, 1, MPI_INT, check_size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    FAILS(MPI_Put(values, 1, MPI_INT, -7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    FAILS(MPI_Put(values, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(values, 1, MPI_INT, 0, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(values, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(values, 1, MPI_INT, 0, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(values, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    FAILS(MPI_Put(values, 1, MPI_INT, 0, ints, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get(values, 2, MPI_INT, 0, ints - 1, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Get(NULL, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    FAILS(MPI_Accumulate(values, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(values, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BAND, win), MPI_ERR_OP);
    FAILS(MPI_Fetch_and_op(values, values + 1, MPI_INT, check_size, 0, MPI_SUM, win), MPI_ERR_RANK);
    FAILS(MPI_Compare_and_swap(values, values + 1, values + 2, MPI_INT, 0, ints, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Compare_and_swap(values, values + 1, values + 2, MPI_FLOAT, 0, 0, win), MPI_ERR_TYPE);
    OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    FAILS(MPI_Put(values, 1, uncommitted, 0, 0, 1, uncommitted, win), MPI_ERR_TYPE);
    OK(MPI_Type_free(&uncommitted));
    OK(MPI_Accumulate(values, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
    OK(MPI_Type_contiguous(0, MPI_INT, &uncommitted));
    OK(MPI_Type_commit(&uncommitted));
    OK(MPI_Accumulate(NULL, 1, uncommitted, 0, 0, 1, uncommitted, MPI_SUM, win));
    OK(MPI_Get(NULL, 0, MPI_INT, 0, 0, 1, uncommitted, win));
    OK(MPI_Type_free(&uncommitted));
    OK(MPI_Put(values, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    MPI_Request request;
    OK(MPI_Rget(values, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock_all(win));
    FAILS(MPI_Win_lock(77, 0, 0, win), MPI_ERR_LOCKTYPE);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1 << 30, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_fence(1 << 30, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_attach(win, values, sizeof values), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win));
    OK(MPI_Win_unlock(MPI_PROC_NULL, win));
}

static void of_no_window(void)
{
    int value = 0;
    MPI_Win win;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    FAILS(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN);
    FAILS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, MPI_WIN_NULL), MPI_ERR_WIN);
    win = MPI_WIN_NULL;
    FAILS(MPI_Win_free(&win), MPI_ERR_WIN);
    FAILS(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_create(&value, -1, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_create(&value, sizeof value, 0, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_DISP);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* Windows are of intracommunicators. */
static void of_two_groups(void)
{
    MPI_Comm half, inter;
    MPI_Win win;
    int value = 0, *memory;
    if (check_size < 2) return;
    OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_rank > 0 ? 0 : 1, 0, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    FAILS(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, inter, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_create_dynamic(MPI_INFO_NULL, inter, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_allocate(sizeof value, 1, MPI_INFO_NULL, inter, &memory, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_allocate_shared(sizeof value, 1, MPI_INFO_NULL, inter, &memory, &win), MPI_ERR_COMM);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

/* Loads and stores in the memory of the others. */
static void shared_memory(void)
{
    MPI_Comm host;
    MPI_Win win;
    int rank, size, *memory, unit;
    MPI_Aint bytes;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    MPI_Comm_rank(host, &rank);
    MPI_Comm_size(host, &size);
    OK(MPI_Win_allocate_shared((rank + 1) * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, host, &memory, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    attributes(win, memory, (rank + 1) * (MPI_Aint)sizeof(int), sizeof(int), MPI_WIN_FLAVOR_SHARED);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i <= rank; i++) memory[i] = rank * 100 + i;
    OK(MPI_Win_sync(win));
    OK(MPI_Barrier(host));
    OK(MPI_Win_sync(win));
    int *next = NULL;
    for (int other = 0; other < size; other++) {
        int *base;
        OK(MPI_Win_shared_query(win, other, &bytes, &unit, &base));
        CHECK(bytes == (other + 1) * (MPI_Aint)sizeof(int) && unit == sizeof(int), "query of %d", other);
        CHECK(!next || base == next, "the parts do not follow each other");
        for (int i = 0; i <= other; i++) CHECK(base[i] == other * 100 + i, "int %d of %d is %d", i, other, base[i]);
        next = base + other + 1;
    }
    int *first = NULL;
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
    CHECK(bytes == sizeof(int) && *first == 0, "query of no rank");
    OK(MPI_Win_unlock_all(win));
    int before = deleted;
    OK(MPI_Win_free(&win));
    CHECK(deleted == before + 1, "the delete function was not called at the end");

    /* Who asks for no memory gets the same address as who asks for that memory: none. */
    OK(MPI_Win_allocate_shared(rank ? 0 : 8, 1, MPI_INFO_NULL, host, &memory, &win));
    OK(MPI_Win_shared_query(win, rank, &bytes, &unit, &first));
    CHECK(bytes == (rank ? 0 : 8) && first == memory, "memory at %p, by the query at %p", (void *)memory,
          (void *)first);
    CHECK(!memory == (rank > 0), "%ld bytes at %p", (long)bytes, (void *)memory);
    OK(MPI_Win_free(&win));
    MPI_Comm_free(&host);
}

/* Where one process has no memory, none has the window. */
static void no_memory(void)
{
    struct rlimit before, less;
    MPI_Win win = MPI_WIN_NULL;
    void *memory;
    getrlimit(RLIMIT_FSIZE, &before);
    less = before, less.rlim_cur = 4 << 20;
    signal(SIGXFSZ, SIG_IGN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (check_rank == 0) setrlimit(RLIMIT_FSIZE, &less);
    int code = MPI_Win_allocate(8 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win), class, any = 0;
    if (check_rank == 0) setrlimit(RLIMIT_FSIZE, &before);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_NO_MEM, "no memory: %s", check_error_text(code));
    OK(MPI_Allreduce(&class, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK(any == class, "the window is there at some processes only");
    if (code == MPI_SUCCESS) OK(MPI_Win_free(&win)); /* windows are no files for this library */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void many(void)
{
    int value = check_rank;
    for (int i = 0; i < 50; i++) {
        MPI_Win a, b;
        int *memory;
        OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &a));
        OK(MPI_Win_allocate(i * 100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &b));
        OK(MPI_Win_free(&a));
        OK(MPI_Win_free(&b));
    }
}

/* Memory without a byte overlaps none, and memory that was refused is not attached. */
static void attaching(MPI_Win win)
{
    char memory[100];
    OK(MPI_Win_attach(win, memory, 50));
    OK(MPI_Win_attach(win, memory + 10, 0));
    OK(MPI_Win_attach(win, memory + 50, 50));
    FAILS(MPI_Win_attach(win, memory + 49, 1), MPI_ERR_RMA_ATTACH);
    OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_detach(win, memory + 10));
    OK(MPI_Win_detach(win, memory + 50));
    FAILS(MPI_Win_attach(win, NULL, 10), MPI_ERR_BUFFER);
    FAILS(MPI_Win_detach(win, NULL), MPI_ERR_RMA_ATTACH);
}

/* The error of a request is its window's (MPI-5.0 §12.6). */
static void failing_request(MPI_Win win, int target)
{
    MPI_Request request;
    int value = 0, before = handled, code, class;
    OK(MPI_Win_lock_all(0, win));
    code = MPI_Rget(&value, 1, MPI_INT, target, 4096, 1, MPI_INT, win, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_RMA_RANGE, "a get of what is not attached: %s", check_error_text(code));
    CHECK(handled == before + 1, "the handler was called %d times", handled - before);
    OK(MPI_Win_unlock_all(win));
}

/* What a target refuses is an error of the epoch that asked for it. */
static void failing_epoch(MPI_Win win, int target)
{
    MPI_Group all;
    int value = 0, code, class;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Win_post(all, 0, win));
    OK(MPI_Win_start(all, 0, win));
    code = MPI_Put(&value, 1, MPI_INT, target, 4096, 1, MPI_INT, win);
    if (code != MPI_SUCCESS) OK(MPI_Win_complete(win)); /* of this process itself, it is found at once */
    else code = MPI_Win_complete(win);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_RMA_RANGE, "a put outside in an epoch of groups: %s", check_error_text(code));
    OK(MPI_Win_wait(win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Group_free(&all));
}

/* The target of a dynamic window checks what it is asked to do. */
static void dynamic(void)
{
    MPI_Win win;
    int memory[8] = {1, 2, 3, 4, 5, 6, 7, 8}, value = 0, other = (check_rank + 1) % check_size;
    MPI_Aint here, there;
    MPI_Errhandler handler;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, memory, sizeof memory));
    FAILS(MPI_Win_attach(win, memory + 2, sizeof(int)), MPI_ERR_RMA_ATTACH);
    OK(MPI_Get_address(memory, &here));
    OK(MPI_Sendrecv(&here, 1, MPI_AINT, (check_rank + check_size - 1) % check_size, 0, &there, 1, MPI_AINT, other, 0,
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Get(&value, 1, MPI_INT, other, MPI_Aint_add(there, 3 * sizeof(int)), 1, MPI_INT, win));
    OK(MPI_Win_flush(other, win));
    CHECK(value == 4, "got %d", value);
    int code = MPI_Put(&value, 1, MPI_INT, other, MPI_Aint_add(there, 1 << 20), 1, MPI_INT, win), class;
    if (code == MPI_SUCCESS) code = MPI_Win_flush(other, win);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_RMA_RANGE, "a put outside of what is attached: %s", check_error_text(code));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_Win_detach(win, memory + 1), MPI_ERR_RMA_ATTACH);
    OK(MPI_Win_detach(win, memory));
    attaching(win);
    OK(MPI_Win_create_errhandler(on_error, &handler));
    OK(MPI_Win_set_errhandler(win, handler));
    OK(MPI_Errhandler_free(&handler));
    failing_request(win, other);
    failing_epoch(win, other);
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    enum { INTS = 10 };
    int memory[INTS] = {0};
    MPI_Win win;
    check_start(&argc, &argv);
    OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    attributes(win, memory, sizeof memory, sizeof(int), MPI_WIN_FLAVOR_CREATE);
    names_and_hints(win);
    handlers(win);
    wrong_epochs(win);
    wrong_arguments(win, INTS);
    int before = deleted;
    OK(MPI_Win_free(&win));
    CHECK(deleted == before + 1, "the delete function was not called at the end");
    of_no_window();
    of_two_groups();
    shared_memory();
    dynamic();
    no_memory();
    many();
    return check_end();
}
