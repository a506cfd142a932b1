/* A process that looks at its own window again and again, and calls nothing else: it makes progress all the
 * same, or what it looks for never comes. Each other process first sends it a message that it must answer,
 * and then adds to its counter. Nothing else makes progress (mode inline). */
#include "check.h"

#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

enum { CREATED, ALLOCATED, DYNAMIC, KINDS };
enum { FLUSH, FLUSH_ALL, LOCAL, LOCAL_ALL, SYNC, LOCK, LOCK_ALL, STYLES };

struct place { MPI_Win win; MPI_Aint disp; long *memory; };

static struct place begin(int kind)
{
    static long counter;
    struct place p = {MPI_WIN_NULL, 0, &counter};
    counter = 0;
    if (kind == ALLOCATED) {
        OK(MPI_Win_allocate(sizeof counter, sizeof counter, MPI_INFO_NULL, MPI_COMM_WORLD, &p.memory,
                            &p.win));
        *p.memory = 0;
    } else if (kind == CREATED) {
        OK(MPI_Win_create(&counter, sizeof counter, sizeof counter, MPI_INFO_NULL, MPI_COMM_WORLD, &p.win));
    } else {
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &p.win));
        OK(MPI_Win_attach(p.win, &counter, sizeof counter));
        OK(MPI_Get_address(&counter, &p.disp));
        OK(MPI_Bcast(&p.disp, 1, MPI_AINT, 0, MPI_COMM_WORLD));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return p;
}

/* The counter of this process, looked at once. */
static long look(struct place p, int style)
{
    long seen = -1;
    if (style == LOCK) OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, p.win));
    if (style == LOCK_ALL) OK(MPI_Win_lock_all(0, p.win));
    OK(MPI_Fetch_and_op(NULL, &seen, MPI_LONG, check_rank, p.disp, MPI_NO_OP, p.win));
    switch (style) {
    case FLUSH: OK(MPI_Win_flush(check_rank, p.win)); break;
    case FLUSH_ALL: OK(MPI_Win_flush_all(p.win)); break;
    case LOCAL: OK(MPI_Win_flush_local(check_rank, p.win)); break;
    case LOCAL_ALL: OK(MPI_Win_flush_local_all(p.win)); break;
    case SYNC: OK(MPI_Win_sync(p.win)); break;
    case LOCK: OK(MPI_Win_unlock(check_rank, p.win)); break;
    default: OK(MPI_Win_unlock_all(p.win)); break;
    }
    return seen;
}

int main(int argc, char **argv)
{
    const long one = 1;
    check_start(&argc, &argv);
#ifdef MPIX_AYATORI
    int mode;
    OK(MPIX_Progress_set(MPIX_PROGRESS_INLINE, &mode));
#endif
    for (int kind = 0; kind < KINDS; kind++) {
        for (int style = 0; style < STYLES; style++) {
            struct place p = begin(kind);
            int is_open = style != LOCK && style != LOCK_ALL;
            if (check_rank == 0) {
                MPI_Request *requests = malloc((size_t)check_size * sizeof *requests);
                for (int i = 1; i < check_size; i++)
                    OK(MPI_Irecv(NULL, 0, MPI_INT, i, style, MPI_COMM_WORLD, &requests[i - 1]));
                if (is_open) OK(MPI_Win_lock_all(0, p.win));
                long seen;
                do seen = look(p, style);
                while (seen >= 0 && seen < check_size - 1);
                CHECK(seen == check_size - 1, "kind %d style %d: %ld have come", kind, style, seen);
                if (is_open) OK(MPI_Win_unlock_all(p.win));
                OK(MPI_Waitall(check_size - 1, requests, MPI_STATUSES_IGNORE));
                free(requests);
            } else {
                OK(MPI_Ssend(NULL, 0, MPI_INT, 0, style, MPI_COMM_WORLD));
                OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, p.win));
                OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, p.disp, 1, MPI_LONG, MPI_SUM, p.win));
                OK(MPI_Win_unlock(0, p.win));
            }
            OK(MPI_Barrier(MPI_COMM_WORLD));
            OK(MPI_Win_free(&p.win));
        }
    }
    return check_end();
}
