/* What the functions of a translator share.
 *
 * `foreign.h` and `values.h` are printed by `cargo xtask translate` for one ABI, MPICH's or Open MPI's. A
 * name MPI_X is that ABI's. What is of the standard ABI begins with `a_` or A_: a handle there is an integer
 * of the size of a pointer, and this library gives out integers below 2^31, see crates/mpi/src/handle.rs. So
 * a handle that was made at run time is marked by the highest bit, and needs no table.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TRANSLATE_H
#define TRANSLATE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* What most calls do, and what few do. A cold function's call does not make the rest save registers. */
#define INLINE static inline __attribute__((always_inline))
#define COLD static __attribute__((cold, noinline, unused))

/* MPI_X beside PMPI_X: weak, so that a tool may bring its own. */
#define ALIAS(name) extern __typeof__(P##name) name __attribute__((weak, alias("P" #name)));

/* The standard ABI. */
typedef uintptr_t a_handle;
typedef struct {
    int source;
    int tag;
    int error;
    /* Low and high half of the length, cancelled or not, unused. */
    int internal[5];
} a_status;

/* The lowest handle that is not predefined. */
#define A_MADE 0x1000

/* A handle of no object, for what cannot be translated: the library refuses it by its class. */
#define A_BAD(handle) ((a_handle)(uint32_t)(uintptr_t)(handle) | (a_handle)1 << 40)

/* Says on stderr that `what` is not translated, and raises MPI_ERR_UNSUPPORTED_OPERATION on MPI_COMM_SELF.
 * Returns the code of the foreign ABI. */
HIDDEN __attribute__((cold)) int refuse(const char *what);
/* Says so of a predefined handle, once. */
HIDDEN __attribute__((cold)) a_handle refuse_handle(const char *name, uintptr_t handle);

#include "values.h"
#include "calls.h"

/* Numbers. */

INLINE int in_rank(int rank)
{
    return likely(rank >= 0) ? rank : in_special_rank(rank);
}

INLINE int out_rank(int rank)
{
    return likely(rank >= 0) ? rank : out_special_rank(rank);
}

INLINE int in_tag(int tag)
{
    return likely(tag >= 0) ? tag : tag == MPI_ANY_TAG ? A_MPI_ANY_TAG : -1000 + tag;
}

INLINE int out_tag(int tag)
{
    return unlikely(tag == A_MPI_ANY_TAG) ? MPI_ANY_TAG : tag;
}

static inline MPI_Offset in_displacement(MPI_Offset displacement)
{
    return displacement == MPI_DISPLACEMENT_CURRENT ? A_MPI_DISPLACEMENT_CURRENT : displacement;
}

/* Codes the user added follow the last predefined one. */
INLINE int out_error(int code)
{
    if (likely(code == 0)) return 0;
    return code > A_MPI_ERR_LASTCODE ? code - A_MPI_ERR_LASTCODE + MPI_ERR_LASTCODE : out_error_class(code);
}

static inline int in_error(int code)
{
    return code > MPI_ERR_LASTCODE ? code - MPI_ERR_LASTCODE + A_MPI_ERR_LASTCODE : in_error_class(code);
}

static inline int in_darg(int darg)
{
    return darg == MPI_DISTRIBUTE_DFLT_DARG ? A_MPI_DISTRIBUTE_DFLT_DARG : darg;
}

static inline int out_darg(int darg)
{
    return darg == A_MPI_DISTRIBUTE_DFLT_DARG ? MPI_DISTRIBUTE_DFLT_DARG : darg;
}

/* Buffers. */

static inline void *in_buffer(const void *buffer)
{
    return buffer == MPI_IN_PLACE ? A_MPI_IN_PLACE : (void *)buffer;
}

static inline void *in_attached(const void *buffer)
{
#ifdef MPI_BUFFER_AUTOMATIC
    if (buffer == MPI_BUFFER_AUTOMATIC) return A_MPI_BUFFER_AUTOMATIC;
#endif
    return (void *)buffer;
}

static inline void *out_attached(void *buffer)
{
#ifdef MPI_BUFFER_AUTOMATIC
    if (buffer == A_MPI_BUFFER_AUTOMATIC) return MPI_BUFFER_AUTOMATIC;
#endif
    return buffer;
}

static inline int *in_weights(const int *weights)
{
    if (weights == MPI_UNWEIGHTED) return A_MPI_UNWEIGHTED;
    return weights == MPI_WEIGHTS_EMPTY ? A_MPI_WEIGHTS_EMPTY : (int *)weights;
}

/* Statuses. What the library leaves alone stays as it is. */

#define UNTOUCHED 0x7ffffff1

INLINE void unset_status(a_status *a)
{
    a->source = UNTOUCHED;
    a->error = UNTOUCHED;
}

INLINE void out_status(const a_status *a, MPI_Status *status)
{
    if (unlikely(a->source == UNTOUCHED)) {
        /* Of a request that goes on only the error is set (MPI_ERR_PENDING). */
        if (a->error != UNTOUCHED) status->MPI_ERROR = out_error(a->error);
        return;
    }
    status->MPI_SOURCE = out_rank(a->source);
    status->MPI_TAG = out_tag(a->tag);
    if (a->error != UNTOUCHED) status->MPI_ERROR = out_error(a->error);
    STATUS_SET(status, a->internal[0], a->internal[1], a->internal[2]);
}

static inline void in_status(const MPI_Status *status, a_status *a)
{
    int64_t length = STATUS_LENGTH(status);
    *a = (a_status){in_rank(status->MPI_SOURCE),
                    in_tag(status->MPI_TAG),
                    in_error(status->MPI_ERROR),
                    {(int)length, (int)(length >> 32), STATUS_CANCELLED(status) != 0, 0, 0}};
}

/* Memory for one call: `few` where it suffices, else the heap. NULL when there is none left. */
static inline void *room(void *few, size_t few_bytes, size_t bytes)
{
    return likely(bytes <= few_bytes) ? few : malloc(bytes);
}

static inline void leave(void *few, void *memory)
{
    if (unlikely(memory != few)) free(memory);
}

/* Elements of an array argument for which no heap is needed. */
#define FEW 32

static inline size_t length_of(MPI_Count count)
{
    return count > 0 ? (size_t)count : 0;
}

/* How many elements each array of an MPI_*alltoallw has. */
HIDDEN size_t peers_of(a_handle comm);
HIDDEN size_t sources_of(a_handle comm);
HIDDEN size_t destinations_of(a_handle comm);

/* Copies a text of the library into `max` bytes of the user's, the zero among them, and corrects the length
 * that goes with it. */
HIDDEN void out_text(char *text, size_t max, const char *from, int *length);

/* Callbacks: see callbacks.c. */
HIDDEN int is_predefined_copy(const void *function, int *is_dup);
HIDDEN int is_null_delete(const void *function);

#endif
