/* A communicator that is freed gives back what it had of its host's shared memory, also when it has been
 * revoked: after more of these than there is room for, collective operations of a new one go through shared
 * memory still. */
#include "check.h"
#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

#ifdef MPIX_AYATORI
/* More than communicators have rooms (docs/shm.md). */
#define REVOKED 40

static unsigned long long packets_sent(void)
{
    unsigned long long count = 0;
    int index = -1, ones = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("sent_packets", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &ones));
    OK(MPI_T_pvar_read(session, handle, &count));
    OK(MPI_T_pvar_session_free(&session));
    return count;
}

/* Packets that this process sends for barriers of a new communicator. */
static unsigned long long packets_of_barriers(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    /* Who has left this one sends nothing more for what was before. */
    for (int i = 0; i < 2; i++) OK(MPI_Barrier(comm));
    unsigned long long before = packets_sent();
    for (int i = 0; i < 100; i++) OK(MPI_Barrier(comm));
    unsigned long long count = packets_sent() - before;
    OK(MPI_Comm_free(&comm));
    return count;
}

int main(int argc, char **argv)
{
    int provided;
    check_start(&argc, &argv);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    unsigned long long first = packets_of_barriers();
    for (int i = 0; i < REVOKED; i++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (check_rank == i % check_size) OK(MPIX_Comm_revoke(comm));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Comm_free(&comm));
    }
    unsigned long long last = packets_of_barriers();
    CHECK(first > 0 || last == 0, "100 barriers sent no packet, and now %llu", last);
    OK(MPI_T_finalize());
    return check_end();
}
#else
int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    if (check_rank == 0) printf("Skipped: this library cannot revoke a communicator\n");
    MPI_Finalize();
    return 0;
}
#endif
