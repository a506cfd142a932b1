/* What the C side of the Fortran binding shares: handles, sentinels, strings, arrays.
 *
 * A Fortran handle is the integer of the C handle (MPI_Comm_toint), which in this library is a cast. So a C `MPI_Comm *`
 * that a callback gets may be read as an `INTEGER` on a little-endian machine, and callbacks without an extra state need
 * no translation. A Fortran status is the C status: eight integers. LOGICAL is an integer, 0 or not.
 *
 * Files with a `symbols` in their names and special.c are compiled twice: for mpi_x_, which calls MPI_X, and with
 * AYATORI_PROFILING for pmpi_x_, which calls PMPI_X. So a tool that wraps the C functions sees Fortran programs, too.
 *
 * With AYATORI_FOREIGN the same is made for programs of another MPI: <mpi.h> is that one's, and
 * translate/c/fortran.h has its handles and sentinels.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef AYATORI_FORTRAN_BINDING_H
#define AYATORI_FORTRAN_BINDING_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "callbacks read C handles as INTEGERs, which needs a little-endian machine"
#endif

#ifdef AYATORI_PROFILING
#define F(name) pmpi_##name##_
#define C(name) PMPI_##name
#else
#define F(name) mpi_##name##_
#define C(name) MPI_##name
#endif

#define HIDDEN __attribute__((visibility("hidden")))

#ifdef AYATORI_FOREIGN
#include "fortran.h"
#else

/* The key of a predefined attribute in C. */
#define KEYVAL_OF_C(keyval) (keyval)

/* Handles. */
#define HANDLE(type, name)                                                                    \
    static inline type to_##name(int handle) { return (type)(uintptr_t)(unsigned)handle; } \
    static inline int of_##name(type handle) { return (int)(uintptr_t)handle; }
HANDLE(MPI_Comm, MPI_Comm)
HANDLE(MPI_Datatype, MPI_Datatype)
HANDLE(MPI_Errhandler, MPI_Errhandler)
HANDLE(MPI_File, MPI_File)
HANDLE(MPI_Group, MPI_Group)
HANDLE(MPI_Info, MPI_Info)
HANDLE(MPI_Message, MPI_Message)
HANDLE(MPI_Op, MPI_Op)
HANDLE(MPI_Request, MPI_Request)
HANDLE(MPI_Session, MPI_Session)
HANDLE(MPI_Win, MPI_Win)
#undef HANDLE

/* Sentinels: Fortran's are variables, known by their addresses. In mpif.h and in module mpi each is a common block, in
 * mpi_f08 a variable bound to the same name. */
extern int ayatori_bottom_, ayatori_in_place_, ayatori_buffer_automatic_;
extern int ayatori_status_ignore_[8], ayatori_statuses_ignore_[8], ayatori_errcodes_ignore_[1];
extern int ayatori_unweighted_[1], ayatori_weights_empty_[1];
extern char ayatori_argv_null_[1], ayatori_argvs_null_[1];

#endif

static inline void *choice(const void *address)
{
    if (address == &ayatori_bottom_) return MPI_BOTTOM;
    if (address == &ayatori_in_place_) return MPI_IN_PLACE;
#ifndef AYATORI_FOREIGN
    if (address == &ayatori_buffer_automatic_) return MPI_BUFFER_AUTOMATIC;
#endif
    return (void *)address;
}

static inline MPI_Status *status_of(const int *status)
{
    return status == ayatori_status_ignore_ ? MPI_STATUS_IGNORE : (MPI_Status *)status;
}

static inline MPI_Status *statuses_of(const int *statuses)
{
    return statuses == ayatori_statuses_ignore_ ? MPI_STATUSES_IGNORE : (MPI_Status *)statuses;
}

static inline int *weights_of(const int *weights)
{
    if (weights == ayatori_unweighted_) return MPI_UNWEIGHTED;
    if (weights == ayatori_weights_empty_) return MPI_WEIGHTS_EMPTY;
    return (int *)weights;
}

/* Memory for one call: `few` where it suffices, else the heap. NULL when there is none left. */
static inline void *room(void *few, size_t few_bytes, size_t bytes)
{
    return bytes <= few_bytes ? few : malloc(bytes);
}

static inline void leave(void *few, void *memory)
{
    if (memory != few) free(memory);
}

static inline size_t length_of(MPI_Count count)
{
    return count > 0 ? (size_t)count : 0;
}

/* How many elements each array of an MPI_*alltoallw has. */
HIDDEN size_t peers_of(MPI_Comm comm);
HIDDEN size_t sources_of(MPI_Comm comm);
HIDDEN size_t destinations_of(MPI_Comm comm);

/* A Fortran string as a C string, without the blanks at its end and, if `strip`, at its begin; NULL without memory. */
HIDDEN char *text_in(char *few, size_t few_bytes, const char *text, size_t length, int strip);
/* A C string as a Fortran string, padded with blanks or cut. */
HIDDEN void text_out(char *text, size_t length, const char *from);

/* Bytes of a string argument for which no heap is needed. */
#define FEW_CHARS 512
/* Elements of an array argument for which no heap is needed. */
#define FEW 32

typedef void (*procedure)(void);

#endif
