/* Ports, names, meetings of groups of one job, and a socket of the program's; wrong arguments. */
#include "check.h"
#include <sys/socket.h>
#include <unistd.h>

/* Both sides say who they are to each other, and a long message goes each way. */
static void use_inter(MPI_Comm inter, int local_size, int remote_size)
{
    enum { LONG = 400000 };
    int inter_flag, size, remote, rank;
    OK(MPI_Comm_test_inter(inter, &inter_flag));
    OK(MPI_Comm_size(inter, &size));
    OK(MPI_Comm_remote_size(inter, &remote));
    OK(MPI_Comm_rank(inter, &rank));
    CHECK(inter_flag, "an intra-communicator");
    CHECK(size == local_size && remote == remote_size, "groups of %d and %d", size, remote);
    int sum = 0, one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK(sum == remote_size, "%d remote processes", sum);
    if (rank > 0) return;
    unsigned char *out = check_alloc(LONG), *in = check_alloc(LONG);
    pattern_fill(out, LONG, 5);
    OK(MPI_Sendrecv(out, LONG, MPI_BYTE, 0, 3, in, LONG, MPI_BYTE, 0, 3, inter, MPI_STATUS_IGNORE));
    CHECK(pattern_wrong(in, LONG, 5) < 0, "a long message is damaged");
    free(out), free(in);
}

/* The first half accepts, the other connects by a published name. */
static void halves(void)
{
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME];
    MPI_Comm half, inter;
    int accepts = check_rank < check_size / 2, size, rank;
    OK(MPI_Comm_split(MPI_COMM_WORLD, accepts, 0, &half));
    OK(MPI_Comm_size(half, &size));
    OK(MPI_Comm_rank(half, &rank));
    if (accepts) {
        if (rank == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            OK(MPI_Publish_name("ocean model/1", MPI_INFO_NULL, port));
            FAILS(MPI_Publish_name("ocean model/1", MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
    } else {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) OK(MPI_Lookup_name("ocean model/1", MPI_INFO_NULL, found));
        OK(MPI_Comm_connect(found, MPI_INFO_NULL, 0, half, &inter));
    }
    use_inter(inter, size, check_size - size);
    OK(MPI_Comm_disconnect(&inter));
    CHECK(inter == MPI_COMM_NULL, "a handle is left");
    if (accepts && rank == 0) {
        OK(MPI_Unpublish_name("ocean model/1", MPI_INFO_NULL, port));
        FAILS(MPI_Unpublish_name("ocean model/1", MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        FAILS(MPI_Lookup_name("ocean model/1", MPI_INFO_NULL, found), MPI_ERR_NAME);
        OK(MPI_Close_port(port));
        FAILS(MPI_Close_port(port), MPI_ERR_PORT);
        FAILS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
        FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    }
    OK(MPI_Comm_free(&half));
}

/* What is wrong at the root all members hear. */
static void wrong(void)
{
    MPI_Comm inter;
    char port[MPI_MAX_PORT_NAME];
    FAILS(MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT);
    FAILS(MPI_Comm_accept("nonsense", MPI_INFO_NULL, check_size - 1, MPI_COMM_WORLD, &inter), MPI_ERR_PORT);
    FAILS(MPI_Comm_connect("nonsense", MPI_INFO_NULL, check_size, MPI_COMM_WORLD, &inter), MPI_ERR_ROOT);
    FAILS(MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_NULL, &inter), MPI_ERR_COMM);
    FAILS(MPI_Close_port("nonsense"), MPI_ERR_PORT);
    FAILS(MPI_Close_port(NULL), MPI_ERR_ARG);
    FAILS(MPI_Open_port(MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    FAILS(MPI_Lookup_name("nobody's", MPI_INFO_NULL, port), MPI_ERR_NAME);
    FAILS(MPI_Lookup_name("", MPI_INFO_NULL, port), MPI_ERR_ARG);
    FAILS(MPI_Publish_name("s", MPI_INFO_NULL, ""), MPI_ERR_PORT);
    FAILS(MPI_Comm_join(-1, &inter), MPI_ERR_ARG);
}

/* A socket whose other end is closed: an error, and no hang. */
static void join(void)
{
    int pair[2];
    MPI_Comm inter;
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    close(pair[1]);
    int code = MPI_Comm_join(pair[0], &inter);
    CHECK(code != MPI_SUCCESS, "joined to nobody");
    close(pair[0]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    wrong();
    join();
    if (check_size > 1) halves();
    return check_end();
}
