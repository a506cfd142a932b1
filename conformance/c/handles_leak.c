/* Handles that are made and freed again and again: the process's memory stays as it is (MPI-5.0 §2.5.1).
 * With a number as argument, that many of each kind; 10,000 without. */
#include "check.h"
#include <malloc.h>

static int memory[16];

static int callback(void) { return MPI_SUCCESS; }

static int copy_nothing(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static void make_comm(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_free(&comm));
}

static void make_cart(void)
{
    MPI_Comm comm;
    int one = 1;
    OK(MPI_Cart_create(MPI_COMM_SELF, 1, &one, &one, 0, &comm));
    OK(MPI_Comm_free(&comm));
}

static void make_group(void)
{
    MPI_Group group, other;
    int zero = 0;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    OK(MPI_Group_incl(group, 1, &zero, &other));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&other));
}

static void make_datatype(void)
{
    MPI_Datatype type, outer;
    OK(MPI_Type_vector(3, 2, 5, MPI_INT, &type));
    OK(MPI_Type_contiguous(4, type, &outer));
    OK(MPI_Type_commit(&outer));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&outer));
}

static void make_op(void)
{
    MPI_Op op;
    OK(MPI_Op_create((MPI_User_function *)(void *)callback, 1, &op));
    OK(MPI_Op_free(&op));
}

static void make_info(void)
{
    MPI_Info info, copy;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "key", "value"));
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&copy));
}

static void make_errhandler(void)
{
    MPI_Errhandler handler;
    OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)(void *)callback, &handler));
    OK(MPI_Errhandler_free(&handler));
}

static void make_keyval(void)
{
    int keyval;
    MPI_Comm comm;
    OK(MPI_Comm_create_keyval(copy_nothing, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_attr(comm, keyval, memory));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free_keyval(&keyval));
}

static void make_request(void)
{
    MPI_Request request;
    OK(MPI_Isend(memory, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(memory + 1, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void make_persistent(void)
{
    MPI_Request request;
    OK(MPI_Send_init(memory, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Start(&request));
    OK(MPI_Recv(memory + 1, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
}

static void make_collective(void)
{
    MPI_Request request;
    OK(MPI_Iallreduce(memory, memory + 1, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Bcast_init(memory, 1, MPI_INT, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
}

static void make_partitioned(void)
{
    MPI_Request send, receive;
    OK(MPI_Psend_init(memory, 1, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(memory + 1, 1, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    OK(MPI_Pready(0, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

static void make_message(void)
{
    MPI_Request request;
    MPI_Message message;
    OK(MPI_Isend(memory, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD, &request));
    OK(MPI_Mprobe(check_rank, 2, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
    OK(MPI_Mrecv(memory + 1, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void make_session(void)
{
    MPI_Session session;
    MPI_Group group;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
}

static void make_window(void)
{
    MPI_Win win;
    OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(memory, 1, MPI_INT, 0, 8, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
}

static void make_file(void)
{
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_close(&file));
}

static const struct {
    const char *name;
    void (*make)(void);
} kinds[] = {
    {"communicator", make_comm},     {"Cartesian communicator", make_cart},
    {"group", make_group},           {"datatype", make_datatype},
    {"operation", make_op},          {"info", make_info},
    {"error handler", make_errhandler}, {"key and attribute", make_keyval},
    {"request", make_request},       {"persistent request", make_persistent},
    {"collective operation", make_collective}, {"partitioned request", make_partitioned},
    {"message", make_message},       {"session", make_session},
    {"window", make_window},         {"file", make_file},
};

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 10000;
    check_start(&argc, &argv);
    /* Ranks that are done talk to those that still count: connections are made before. */
    int one = 1, sum = 0;
    for (int i = 0; i < 10; i++) OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        /* The first ones fill tables and pools, which keep their memory. */
        for (long i = 0; i < 2000; i++) kinds[kind].make();
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        for (long i = 0; i < count; i++) kinds[kind].make();
        size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
        /* One byte each would be 10,000 and more. */
        CHECK(after < before + 4096, "%ld times %s: %zu bytes became %zu", count, kinds[kind].name, before,
              after);
    }
    return check_end();
}
