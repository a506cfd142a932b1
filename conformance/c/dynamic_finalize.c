/* MPI_Finalize is collective over all that are connected (MPI-5.0 §11.2.2): a started process that still
 * has the communicator with those that started it leaves MPI_Finalize only when they have entered it, or
 * have disconnected. One whose parents have freed the communicator and ended is not left waiting. */
#include "check.h"
#include <limits.h>
#include <unistd.h>

/* Long enough that a process that does not wait is found out. */
enum { LATE_US = 200000 };

static MPI_Comm start(const char *own, char *mode, char *mark)
{
    MPI_Comm inter = MPI_COMM_NULL;
    char *arguments[] = {mode, mark, NULL};
    int word = 7;
    OK(MPI_Comm_spawn(own, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    /* All of them are there. */
    OK(MPI_Bcast(&word, 1, MPI_INT, check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter));
    return inter;
}

static int child(MPI_Comm parent, const char *mode, const char *mark)
{
    int word = 0;
    OK(MPI_Bcast(&word, 1, MPI_INT, 0, parent));
    CHECK(word == 7, "the parents said %d", word);
    /* Rank 1 waits for rank 0, and only then for a parent that it has never heard of and that ends. */
    if (!strcmp(mode, "freed") && check_rank == 0) usleep(LATE_US / 4);
    MPI_Finalize();
    if (!strcmp(mode, "connected")) {
        char own[80];
        snprintf(own, sizeof own, "%s-%d", mark, check_rank);
        CHECK(unlink(own) == 0, "left MPI_Finalize before the parents entered theirs");
    }
    return check_errors != 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    char own[PATH_MAX] = "", mark[64] = "";
    check_start(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) return child(parent, argv[1], argv[2]);
    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "where is this program?");
    if (check_rank == 0) snprintf(mark, sizeof mark, "/tmp/ayatori-finalize-%d", (int)getpid());
    OK(MPI_Bcast(mark, sizeof mark, MPI_CHAR, 0, MPI_COMM_WORLD));
    MPI_Comm connected = start(own, "connected", mark), parted = start(own, "parted", mark);
    MPI_Comm freed = start(own, "freed", mark);
    /* Their side of it is MPI_Finalize. */
    OK(MPI_Comm_disconnect(&parted));
    OK(MPI_Comm_free(&freed));
    usleep(LATE_US);
    CHECK(connected != MPI_COMM_NULL, "not connected");
    for (int i = 0; i < 2 && check_rank == 0; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s-%d", mark, i);
        FILE *made = fopen(name, "w");
        CHECK(made != NULL, "cannot make %s", name);
        if (made) fclose(made);
    }
    return check_end();
}
