/* Shared by the programs that lose ranks: for `cargo xtask survive-test`, which starts them with `ayatori run
 * --survive`. A program prints "No Errors" (lowest rank that lives, last line) or what failed where. */
#ifndef AYATORI_SURVIVE_H
#define AYATORI_SURVIVE_H

#include "../check.h"
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

/* A call that may succeed, or fail because a process has failed or the communicator is revoked; whether it
 * failed. */
__attribute__((unused))
static int lost(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    if (class == MPI_SUCCESS) return 0;
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED,
          "class %d: %s", class, check_error_text(code));
    return 1;
}

/* The end of the process, without a word. */
__attribute__((unused))
static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* The verdict among those that live. */
__attribute__((unused))
static int survive_end(MPI_Comm comm)
{
    int all = 0, rank = -1;
    MPI_Comm_rank(comm, &rank);
    fflush(stderr);
    OK(MPI_Allreduce(&check_errors, &all, 1, MPI_INT, MPI_SUM, comm));
    if (rank == 0) {
        printf(all || check_errors ? "Found errors\n" : "No Errors\n");
        fflush(stdout);
    }
    OK(MPI_Finalize());
    return all != 0 || check_errors != 0;
}

#endif
