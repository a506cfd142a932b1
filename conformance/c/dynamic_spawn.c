/* Processes that MPI starts: this program starts itself. Arguments, parents, what is said both ways, several
 * commands, and what cannot be started. */
#include "check.h"
#include <limits.h>
#include <unistd.h>

static void talk(MPI_Comm inter, int local_size, int remote_size)
{
    int size, remote, sum = 0, mine = check_rank + 1;
    OK(MPI_Comm_size(inter, &size));
    OK(MPI_Comm_remote_size(inter, &remote));
    CHECK(size == local_size && remote == remote_size, "groups of %d and %d", size, remote);
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK(sum == remote_size * (remote_size + 1) / 2, "the others say %d", sum);
}

/* Collective operations of both worlds together. The worlds differ in size, so where there are fewer CPUs
 * than processes of one, but not of the other, what suits the one world does not suit the other. */
static void together(MPI_Comm all, int size)
{
    enum { LONG = 100000, MOST = 64 };
    static int in[LONG], out[LONG];
    int rank, all_size, each[MOST] = { 0 }, got[MOST] = { 0 };
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &all_size));
    CHECK(all_size == size && size <= MOST, "%d together", all_size);
    for (int length = 1; length <= LONG; length *= LONG) {
        for (int i = 0; i < length; i++) in[i] = rank + i;
        OK(MPI_Allreduce(in, out, length, MPI_INT, MPI_SUM, all));
        const int last = length - 1;
        CHECK(out[last] == size * (size - 1) / 2 + size * last, "sum %d", out[last]);
        if (rank != size - 1) memset(in, 0, sizeof in);
        OK(MPI_Bcast(in, length, MPI_INT, size - 1, all));
        CHECK(in[last] == size - 1 + last, "broadcast %d", in[last]);
    }
    OK(MPI_Allgather(&rank, 1, MPI_INT, each, 1, MPI_INT, all));
    for (int i = 0; i < size; i++) CHECK(each[i] == i, "gathered %d of %d", each[i], i);
    OK(MPI_Alltoall(each, 1, MPI_INT, got, 1, MPI_INT, all));
    for (int i = 0; i < size; i++) CHECK(got[i] == rank, "block %d from %d", got[i], i);
    OK(MPI_Barrier(all));
}

/* As one that was started: by `parents` processes, as one of `children`, with this number of the command. */
static int child(MPI_Comm parent, int argc, char **argv)
{
    int parents, children, command, flag, *appnum;
    CHECK(argc == 5 && strcmp(argv[1], "a b") == 0, "%d arguments", argc);
    parents = atoi(argv[2]), children = atoi(argv[3]), command = atoi(argv[4]);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag));
    CHECK(flag && *appnum == command, "command %d", flag ? *appnum : -1);
    CHECK(check_size == children, "a world of %d", check_size);
    talk(parent, children, parents);
    MPI_Comm all, again;
    OK(MPI_Intercomm_merge(parent, 1, &all));
    int rank;
    OK(MPI_Comm_rank(all, &rank));
    CHECK(rank == parents + check_rank, "rank %d of all", rank);
    together(all, parents + children);
    OK(MPI_Comm_free(&all));
    OK(MPI_Comm_get_parent(&again));
    CHECK(again == parent, "another parent");
    OK(MPI_Comm_disconnect(&parent));
    OK(MPI_Comm_get_parent(&again));
    CHECK(again == MPI_COMM_NULL, "a parent after the disconnect");
    int code = check_errors;
    MPI_Finalize();
    return code != 0;
}

static void meet(MPI_Comm inter, int children)
{
    MPI_Comm all;
    talk(inter, check_size, children);
    OK(MPI_Intercomm_merge(inter, 0, &all));
    together(all, check_size + children);
    OK(MPI_Comm_free(&all));
    OK(MPI_Comm_disconnect(&inter));
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) return child(parent, argc, argv);

    char own[PATH_MAX] = "", size[12], *words[] = { "a b", size, "2", "0", NULL };
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "where is this program?");
    snprintf(size, sizeof size, "%d", check_size);
    int codes[3] = { -1, -1, -1 };
    OK(MPI_Comm_spawn(own, words, 2, MPI_INFO_NULL, check_size - 1, MPI_COMM_WORLD, &inter, codes));
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS, "codes %d %d", codes[0], codes[1]);
    CHECK(codes[2] == -1, "more codes than processes");
    meet(inter, 2);

    char *first[] = { "a b", size, "3", "0", NULL }, *second[] = { "a b", size, "3", "1", NULL };
    char *commands[] = { own, own }, **argvs[] = { first, second };
    int counts[] = { 2, 1 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    OK(MPI_Info_create(&infos[0]));
    OK(MPI_Info_set(infos[0], "wdir", "/tmp"));
    OK(MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD, &inter,
                               MPI_ERRCODES_IGNORE));
    meet(inter, 3);

    MPI_Info none = MPI_INFO_NULL;
    MPI_Comm world = MPI_COMM_WORLD;
    int *ignore = MPI_ERRCODES_IGNORE;
    FAILS(MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 3, none, 0, world, &inter, codes), MPI_ERR_SPAWN);
    CHECK(codes[2] == MPI_ERR_SPAWN, "code %d of what was not started", codes[2]);
    /* Every rank, not the root alone, can say why. */
    const char *why = check_error_text(MPI_ERR_SPAWN);
    CHECK(strstr(why, "/no/such/program"), "the text of the refused spawn is \"%s\"", why);
    OK(MPI_Info_set(infos[0], "wdir", "/no/such/directory"));
    FAILS(MPI_Comm_spawn(own, words, 1, infos[0], 0, world, &inter, ignore), MPI_ERR_SPAWN);
    FAILS(MPI_Comm_spawn(own, words, 0, none, 0, world, &inter, ignore), MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn(own, words, 1, none, -1, world, &inter, ignore), MPI_ERR_ROOT);
    OK(MPI_Info_free(&infos[0]));
    return check_end();
}
