/* What `cargo xtask launchers` starts under each launcher: probe WHAT SIZE, where SIZE is how many processes
 * there have to be. Prints "probe: WHAT good" at rank 0 where all is as it should be. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 1 << 20 };

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

static int spawn(int rank) {
    MPI_Comm children;
    int code, sum = 0, one = 1;
    char *arguments[] = {"child", NULL};
    MPI_Comm_spawn("probe-child", arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, &code);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, children);
    return rank >= 0 && sum == 1 ? 0 : failed("wrong sum of the children");
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
    if (strcmp(what, "spawn") == 0) result = spawn(rank);
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
    if (rank == 0) printf("probe: %s good\n", what);
    MPI_Finalize();
    return result;
}
