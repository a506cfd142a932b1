/* The types of MPICH's ABI: handles are integers, and a file is a pointer.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TRANSLATE_TYPES_H
#define TRANSLATE_TYPES_H

#include <stdint.h>

typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Errhandler;
typedef struct ADIOI_FileD *MPI_File;
typedef int MPI_Group;
typedef int MPI_Info;
typedef int MPI_Message;
typedef int MPI_Op;
typedef int MPI_Request;
typedef int MPI_Session;
typedef int MPI_Win;

typedef struct MPI_Status {
    int count_lo;
    int count_hi_and_cancelled;
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
} MPI_Status;
typedef MPI_Status MPI_F08_status;

/* The length is in 63 bits, above the bit that tells of cancelling. */
#define STATUS_LENGTH(s) \
    ((int64_t)(((uint64_t)((unsigned)(s)->count_hi_and_cancelled >> 1) << 32) | (unsigned)(s)->count_lo))
#define STATUS_CANCELLED(s) ((s)->count_hi_and_cancelled & 1)
#define STATUS_SET(s, low, high, cancelled) \
    ((s)->count_lo = (low), (s)->count_hi_and_cancelled = (int)((unsigned)(high) << 1 | ((cancelled) != 0)))

#endif
