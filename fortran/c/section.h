/* Array sections of Fortran as buffers.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef AYATORI_FORTRAN_SECTION_H
#define AYATORI_FORTRAN_SECTION_H

#include "binding.h"

#include <ISO_Fortran_binding.h>

/* What a call gets instead of a section with gaps. */
struct section {
    /* Where the buffer begins. */
    void *address;
    /* A datatype that describes the section, and its handle in Fortran; the count is then one. */
    int is_typed;
    MPI_Datatype type;
    int handle;
    /* Or its elements one after another, and the section to copy them back to, if any. */
    void *copy;
    const CFI_cdesc_t *back;
};
#define SECTION_NONE {NULL, 0, MPI_DATATYPE_NULL, 0, NULL, NULL}

static const int one = 1;
static const MPI_Count one_count = 1;

/* Whether the elements lie one after another, so that the base address is all there is to say.
 * CFI_is_contiguous says the same, but is in the compiler's runtime library, which a wheel may not need. */
static inline int is_plain(const CFI_cdesc_t *array)
{
    CFI_index_t next = (CFI_index_t)array->elem_len;
    if (array->base_addr == NULL) return 1;
    for (int at = 0; at < array->rank; at++) {
        const CFI_dim_t *dim = &array->dim[at];
        if (dim->extent == 0) return 1;
        /* One element may have any stride; the last extent of an assumed-size array is -1. */
        if (dim->extent != 1 && dim->sm != next) return 0;
        next *= dim->extent;
    }
    return 1;
}

/* The section as a datatype of `count` elements of `datatype`; where there is none, a copy if `can_copy`, which goes back
 * into the section at the end if it `writes`. Gives an error code. */
HIDDEN int section_typed(struct section *section, const CFI_cdesc_t *array, MPI_Count count, int datatype, int can_copy,
                         int writes);
/* The section as a copy. */
HIDDEN int section_copied(struct section *section, const CFI_cdesc_t *array, int writes);
/* Only a buffer without gaps will do. */
HIDDEN int section_refused(struct section *section, const CFI_cdesc_t *array, int comm);
HIDDEN void section_end(struct section *section);

#endif
