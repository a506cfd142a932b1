/* What the generated calls with wrong arguments stand on (`cargo xtask conformance errors`).
 *
 * Every function is called with one wrong argument at a time, all others being right. Objects return their
 * errors. One process, so no call can wait for another one. Prints a line for each call whose error class is
 * not one of those wanted. */
#ifndef AYATORI_ERRORS_HARNESS_H
#define AYATORI_ERRORS_HARNESS_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Handles that nobody gave out. The ABI's predefined ones are below 4,096. */
#define GARBAGE(type) ((type)(uintptr_t)0x5a5a5a50)

/* Where functions may write, 4,096 bytes a parameter. */
static _Alignas(64) char scratch[24][4096];

/* Right objects, made anew for each function. */
static MPI_Comm comm, cart, graph, dist;
static MPI_Group group;
static MPI_Datatype derived;
static MPI_Op op;
static MPI_Info info;
static MPI_Win win, win_locked;
static MPI_File file;
static MPI_Errhandler errhandler;
static MPI_Session session;
static MPI_Request grequest, persistent, partitioned, partitioned_receive;
static int comm_keyval, type_keyval, win_keyval;

/* Handles of objects that are freed, and a type that is not committed. */
static MPI_Comm freed_comm;
static MPI_Group freed_group;
static MPI_Datatype freed_type, uncommitted;
static MPI_Op freed_op;
static MPI_Info freed_info;
static MPI_Win freed_win;
static MPI_File freed_file;
static MPI_Errhandler freed_errhandler;
static MPI_Session freed_session;
static MPI_Request freed_request;

#define MODE (MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE)
static char file_name[64];
static int window_memory[64];
static int calls, wrong;

/* A callback of any kind that does nothing. */
static int callback(void) { return MPI_SUCCESS; }

/* A call that has to work before any argument can be wrong. */
#define MUST(call) \
    do { \
        int code_ = (call); \
        if (code_ != MPI_SUCCESS) { \
            printf("harness: %s returned %d\n", #call, code_); \
            exit(3); \
        } \
    } while (0)

static void make_objects(void)
{
    int one = 1, zero = 0;
    memset(scratch, 0, sizeof scratch);
    MUST(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    MUST(MPI_Cart_create(comm, 1, &one, &one, 0, &cart));
    MUST(MPI_Graph_create(comm, 1, &one, &zero, 0, &graph));
    MUST(MPI_Dist_graph_create_adjacent(comm, 1, &zero, MPI_UNWEIGHTED, 1, &zero, MPI_UNWEIGHTED,
                                        MPI_INFO_NULL, 0, &dist));
    MUST(MPI_Comm_group(comm, &group));
    MUST(MPI_Type_contiguous(1, MPI_INT, &derived));
    MUST(MPI_Type_commit(&derived));
    MUST(MPI_Op_create((MPI_User_function *)(void *)callback, 1, &op));
    MUST(MPI_Info_create(&info));
    MUST(MPI_Info_set(info, "key", "value"));
    MUST(MPI_Win_create(window_memory, sizeof window_memory, 1, MPI_INFO_NULL, comm, &win));
    MUST(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MUST(MPI_Win_fence(0, win));
    MUST(MPI_Win_create(window_memory, sizeof window_memory, 1, MPI_INFO_NULL, comm, &win_locked));
    MUST(MPI_Win_set_errhandler(win_locked, MPI_ERRORS_RETURN));
    MUST(MPI_Win_lock_all(0, win_locked));
    MUST(MPI_File_open(comm, file_name, MODE, MPI_INFO_NULL, &file));
    MUST(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void *)callback, &errhandler));
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MUST(MPI_Grequest_start((MPI_Grequest_query_function *)(void *)callback,
                            (MPI_Grequest_free_function *)(void *)callback,
                            (MPI_Grequest_cancel_function *)(void *)callback, NULL, &grequest));
    MUST(MPI_Send_init(scratch[0], 1, MPI_INT, MPI_PROC_NULL, 0, comm, &persistent));
    MUST(MPI_Psend_init(scratch[0], 1, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &partitioned));
    MUST(MPI_Precv_init(scratch[0], 1, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL,
                        &partitioned_receive));
    MUST(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_keyval, NULL));
    MUST(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_keyval, NULL));
    MUST(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_keyval, NULL));
}

/* Frees one of each kind and keeps its handle. */
static void free_objects(void)
{
    MPI_Comm a_comm;
    MPI_Group a_group;
    MPI_Datatype a_type;
    MPI_Op an_op;
    MPI_Info an_info;
    MPI_Win a_win;
    MPI_File a_file;
    MPI_Errhandler a_handler;
    MPI_Session a_session;
    MPI_Request a_request;
    MUST(MPI_Comm_dup(MPI_COMM_SELF, &a_comm));
    freed_comm = a_comm;
    MUST(MPI_Comm_free(&a_comm));
    MUST(MPI_Comm_group(MPI_COMM_SELF, &a_group));
    freed_group = a_group;
    MUST(MPI_Group_free(&a_group));
    MUST(MPI_Type_contiguous(3, MPI_INT, &a_type));
    freed_type = a_type;
    MUST(MPI_Type_free(&a_type));
    MUST(MPI_Type_contiguous(5, MPI_INT, &uncommitted));
    MUST(MPI_Op_create((MPI_User_function *)(void *)callback, 1, &an_op));
    freed_op = an_op;
    MUST(MPI_Op_free(&an_op));
    MUST(MPI_Info_create(&an_info));
    freed_info = an_info;
    MUST(MPI_Info_free(&an_info));
    MUST(MPI_Win_create(window_memory, sizeof window_memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &a_win));
    freed_win = a_win;
    MUST(MPI_Win_free(&a_win));
    MUST(MPI_File_open(MPI_COMM_SELF, file_name, MODE, MPI_INFO_NULL, &a_file));
    freed_file = a_file;
    MUST(MPI_File_close(&a_file));
    MUST(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void *)callback, &a_handler));
    freed_errhandler = a_handler;
    MUST(MPI_Errhandler_free(&a_handler));
    MUST(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &a_session));
    freed_session = a_session;
    MUST(MPI_Session_finalize(&a_session));
    MUST(MPI_Send_init(scratch[0], 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &a_request));
    freed_request = a_request;
    MUST(MPI_Request_free(&a_request));
}

/* Says what is tried next: the last one said is the one that crashed or hung. */
static void about_to(const char *function, const char *parameter, const char *value)
{
    calls++;
    memset(scratch, 0, sizeof scratch);
    printf("at %s %s %s\n", function, parameter, value);
    fflush(stdout);
}

/* Compares the class of `code` with those wanted, which end with -1. */
static void judge(int code, const int *wanted)
{
    int class = -1;
    if (code < 0 || MPI_Error_class(code, &class) != MPI_SUCCESS) class = code;
    for (; *wanted >= 0; wanted++)
        if (class == *wanted) return;
    wrong++;
    printf("got %d\n", class);
}

#define TRY(function, parameter, value, call, ...) \
    do { \
        about_to(function, parameter, value); \
        judge((call), (const int[]){__VA_ARGS__, -1}); \
    } while (0)

typedef struct {
    const char *name;
    void (*run)(void);
} function_test;

/* Runs the tests from the one named `argv[1]` on, in the table's order. */
static int run_all(int argc, char **argv, const function_test *tests)
{
    int begun = argc < 2;
    MUST(MPI_Init(&argc, &argv));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MUST(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MUST(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    snprintf(file_name, sizeof file_name, "/tmp/ayatori-errors-%p", (void *)&begun);
    free_objects();
    for (; tests->name; tests++) {
        begun = begun || strcmp(tests->name, argv[1]) == 0;
        if (!begun) continue;
        make_objects();
        tests->run();
    }
    printf("end %d calls, %d wrong\n", calls, wrong);
    fflush(stdout);
    remove(file_name);
    /* Objects are left in any state; what ends the process is not what is tested. */
    _Exit(0);
}

#endif
