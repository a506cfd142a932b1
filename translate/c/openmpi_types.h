/* The types of Open MPI's ABI: handles are addresses.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TRANSLATE_TYPES_H
#define TRANSLATE_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t *MPI_Datatype;
typedef struct ompi_errhandler_t *MPI_Errhandler;
typedef struct ompi_file_t *MPI_File;
typedef struct ompi_group_t *MPI_Group;
typedef struct ompi_info_t *MPI_Info;
typedef struct ompi_message_t *MPI_Message;
typedef struct ompi_op_t *MPI_Op;
typedef struct ompi_request_t *MPI_Request;
typedef struct ompi_instance_t *MPI_Session;
typedef struct ompi_win_t *MPI_Win;

typedef struct ompi_status_public_t {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int _cancelled;
    size_t _ucount;
} MPI_Status;
typedef MPI_Status MPI_F08_status;

/* What Open MPI 4 and 5 say of themselves. */
#define FOREIGN_VERSION 3
#define FOREIGN_SUBVERSION 1

#define STATUS_LENGTH(s) ((int64_t)(s)->_ucount)
#define STATUS_CANCELLED(s) ((s)->_cancelled)
#define STATUS_SET(s, low, high, cancelled) \
    ((s)->_ucount = (size_t)(unsigned)(low) | (size_t)(unsigned)(high) << 32, \
     (s)->_cancelled = (cancelled) != 0)

#endif
