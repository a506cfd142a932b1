/* What Ayatori offers beyond the MPI standard. Programs that use it need this library; `#ifdef MPIX_AYATORI` tells.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef MPI_EXT_H_AYATORI
#define MPI_EXT_H_AYATORI

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define MPIX_AYATORI 1

/* Who makes progress with messages under way. See docs/progress.md. */
enum {
    /* Calls of MPI only. */
    MPIX_PROGRESS_INLINE   = 0,
    /* Calls of MPI, and a thread of the library's while there are none. The default. */
    MPIX_PROGRESS_ASSISTED = 1,
    /* A thread of the library's that owns the devices; calls give it commands and look for what came of them. */
    MPIX_PROGRESS_OFFLOAD  = 2
};

/* Goes over to a mode. Local; no other thread may be in a call of MPI. `provided` is the mode in force afterwards. */
int MPIX_Progress_set(int mode, int *provided);
int MPIX_Progress_get(int *mode);

/* As MPI_Isend; after each packet of the message's data the rail stays silent for `gap` packet times (from 0 to 1e6), so
 * that 1.0 leaves half of its rate. Short messages, which are one packet, are not held back. See docs/gaps.md. */
int MPIX_Isend_paced(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, double gap,
                     MPI_Comm comm, MPI_Request *request);

/* The info key of a communicator's gap, in packet times; for MPI_Comm_set_info and MPI_Comm_dup_with_info. */
#define MPIX_INFO_GAP "ayatori_gap"

int PMPIX_Isend_paced(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, double gap,
                      MPI_Comm comm, MPI_Request *request);
int PMPIX_Progress_set(int mode, int *provided);
int PMPIX_Progress_get(int *mode);

#if defined(__cplusplus)
}
#endif

#endif /* MPI_EXT_H_AYATORI */
