/* What Ayatori offers beyond the MPI standard. Programs that use it need this library; `#ifdef MPIX_AYATORI` tells.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef MPI_EXT_H_AYATORI
#define MPI_EXT_H_AYATORI

#include <mpi.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define MPIX_AYATORI 1

/* The progress mode of messages under way. See docs/progress.md. */
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

/* Going on without processes that have failed, in jobs started with `ayatori run --survive`: the user-level
 * failure mitigation proposed for MPI, with the names that Open MPI gives it. See docs/survive.md. */

/* A process that the operation needs has failed. */
#define MPIX_ERR_PROC_FAILED         0x3F01
/* A receive from any source may have waited for one that has failed; it goes on once the failure is
 * acknowledged. */
#define MPIX_ERR_PROC_FAILED_PENDING 0x3F02
/* The communicator is revoked. */
#define MPIX_ERR_REVOKED             0x3F03

/* Ends what is under way on a communicator at all its members. Only the functions below work on it
 * afterwards. */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
/* A communicator of the members that live, the same at all of them. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
/* The same, without waiting: the communicator may be used once the request is over. */
int MPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
/* The bitwise and of the flags of all that live; value and error are the same at all of them. */
int MPIX_Comm_agree(MPI_Comm comm, int *flag);
int MPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request);
/* The members that are known to have failed, and how many of them are acknowledged. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);
/* The older forms. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);

int PMPIX_Comm_revoke(MPI_Comm comm);
int PMPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request);
int PMPIX_Comm_agree(MPI_Comm comm, int *flag);
int PMPIX_Comm_iagree(MPI_Comm comm, int *flag, MPI_Request *request);
int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);

int PMPIX_Isend_paced(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, double gap,
                      MPI_Comm comm, MPI_Request *request);
int PMPIX_Progress_set(int mode, int *provided);
int PMPIX_Progress_get(int *mode);

#if defined(__cplusplus)
}
#endif

#endif /* MPI_EXT_H_AYATORI */
