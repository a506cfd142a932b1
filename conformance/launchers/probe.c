/* What `cargo xtask launchers` starts under each launcher: probe WHAT SIZE, where SIZE is how many processes
 * there have to be. Prints "probe: WHAT good" at rank 0 where all is as it should be. With "spawn" it starts
 * two more of itself, as "child 2"; where the launcher cannot, it says also "probe: spawn refused: WHY". */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 1 << 20, CHILDREN = 2 };

static int failed(const char *why) {
    fprintf(stderr, "probe: failed: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 3);
    return 3;
}

/* A long message around the ring, and a sum. */
static int hello(int rank, int size) {
    char *out = malloc(LONG), *in = malloc(LONG);
    if (!out || !in) return failed("no memory");
    memset(out, rank, LONG);
    MPI_Sendrecv(out, LONG, MPI_CHAR, (rank + 1) % size, 0, in, LONG, MPI_CHAR, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < LONG; i++)
        if (in[i] != (char)((rank + size - 1) % size)) return failed("wrong bytes");
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(out);
    free(in);
    return sum == size * (size - 1) / 2 ? 0 : failed("wrong sum");
}

/* Rank 0 has what was sent to the launcher's standard input. */
static int input(int rank) {
    char line[64] = "";
    if (rank == 0 && !fgets(line, sizeof line, stdin)) return failed("nothing to read");
    MPI_Bcast(line, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    return strcmp(line, "a word\n") == 0 ? 0 : failed("another line");
}

/* Where the launcher starts nothing for a program, all ranks are told the same class. */
static int refused(int rank, int error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, class = MPI_SUCCESS, bounds[2];
    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &length);
    bounds[0] = class;
    bounds[1] = -class;
    MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (bounds[0] != MPI_ERR_SPAWN || bounds[1] != -MPI_ERR_SPAWN) return failed("not MPI_ERR_SPAWN at all");
    if (rank == 0) printf("probe: spawn refused: %s\n", text);
    return 0;
}

/* Both worlds in one: a sum over all, then each goes its way. */
static int together(MPI_Comm other, int is_child, int wanted) {
    MPI_Comm all;
    int size, sum = 0, one = 1, remote;
    MPI_Comm_remote_size(other, &remote);
    MPI_Intercomm_merge(other, is_child, &all);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
    return size == wanted && sum == wanted && remote > 0 ? 0 : failed("wrong sum over both worlds");
}

static int spawn(int rank, int size, char *program) {
    MPI_Comm children;
    int codes[CHILDREN];
    char *arguments[] = {"child", "2", NULL};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const int error =
        MPI_Comm_spawn(program, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return error == MPI_SUCCESS ? together(children, 0, size + CHILDREN) : refused(rank, error);
}

static int child(void) {
    MPI_Comm parents;
    int size;
    MPI_Comm_get_parent(&parents);
    if (parents == MPI_COMM_NULL) return failed("no parents");
    MPI_Comm_remote_size(parents, &size);
    return together(parents, 1, size + CHILDREN);
}

int main(int count, char **words) {
    int rank, size;
    const char *what = count > 1 ? words[1] : "hello";
    const int wanted = count > 2 ? atoi(words[2]) : 1;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != wanted) return failed("another number of processes");
    int result = 0;
    if (strcmp(what, "hello") == 0) result = hello(rank, size);
    if (strcmp(what, "stdin") == 0) result = input(rank);
    if (strcmp(what, "spawn") == 0) result = spawn(rank, size, words[0]);
    if (strcmp(what, "child") == 0) result = child();
    if (strcmp(what, "kill") == 0 || strcmp(what, "abort") == 0) {
        if (rank == 0) fprintf(stderr, "probe: %s begins\n", what);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == size - 1) {
            if (*what == 'k') raise(SIGKILL);
            MPI_Abort(MPI_COMM_WORLD, 7);
        }
        /* Nobody sends this. */
        MPI_Recv(&result, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return failed("went on after the end of a process");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && strcmp(what, "child") != 0) printf("probe: %s good\n", what);
    MPI_Finalize();
    return result;
}
