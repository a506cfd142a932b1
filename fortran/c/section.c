/* Array sections as datatypes or copies.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "section.h"

/* MPI_SIZEOF: the size of an element of anything. */
void ayatori_sizeof(const CFI_cdesc_t *array, int *size, int *ierror);
void ayatori_sizeof(const CFI_cdesc_t *array, int *size, int *ierror)
{
    *size = (int)array->elem_len;
    if (ierror != NULL) *ierror = MPI_SUCCESS;
}

/* How many elements the first `rank` dimensions have. */
static MPI_Count elements_of(const CFI_cdesc_t *array, int rank)
{
    MPI_Count elements = 1;
    for (int i = 0; i < rank; i++) elements *= array->dim[i].extent;
    return elements;
}

/* Copies between the section and `packed`, the elements one after another, and gives the end of what it went over. */
static char *copy_section(const CFI_cdesc_t *array, int rank, char *at, char *packed, int out)
{
    if (rank == 0) {
        memcpy(out ? at : packed, out ? packed : at, array->elem_len);
        return packed + array->elem_len;
    }
    const CFI_dim_t *dim = &array->dim[rank - 1];
    for (CFI_index_t i = 0; i < dim->extent; i++) {
        packed = copy_section(array, rank - 1, at + i * dim->sm, packed, out);
    }
    return packed;
}

int section_copied(struct section *section, const CFI_cdesc_t *array, int writes)
{
    if (is_plain(array)) {
        section->address = array->base_addr;
        return MPI_SUCCESS;
    }
    size_t bytes = (size_t)elements_of(array, array->rank) * array->elem_len;
    section->copy = malloc(bytes > 0 ? bytes : 1);
    if (section->copy == NULL) return MPI_ERR_NO_MEM;
    section->address = section->copy;
    section->back = writes ? array : NULL;
    copy_section(array, array->rank, array->base_addr, section->copy, 0);
    return MPI_SUCCESS;
}

void section_end(struct section *section)
{
    if (section->back != NULL) {
        const CFI_cdesc_t *array = section->back;
        copy_section(array, array->rank, array->base_addr, section->copy, 1);
    }
    free(section->copy);
    if (section->is_typed) PMPI_Type_free(&section->type);
}

/* A datatype of the first `count` elements of the first `rank` dimensions, each element an `element`. */
static int first_elements(const CFI_cdesc_t *array, int rank, MPI_Count count, MPI_Datatype element, MPI_Datatype *type)
{
    if (rank == 0) return PMPI_Type_dup(element, type);
    const CFI_dim_t *dim = &array->dim[rank - 1];
    MPI_Count below = elements_of(array, rank - 1);
    MPI_Count full = below > 0 ? count / below : 0, rest = below > 0 ? count % below : 0;
    MPI_Datatype row = MPI_DATATYPE_NULL, rows = MPI_DATATYPE_NULL, end = MPI_DATATYPE_NULL;
    int code = first_elements(array, rank - 1, below, element, &row);
    if (code != MPI_SUCCESS) return code;
    code = PMPI_Type_create_hvector_c(full, 1, dim->sm, row, rest > 0 ? &rows : type);
    PMPI_Type_free(&row);
    if (code != MPI_SUCCESS || rest == 0) return code;
    code = first_elements(array, rank - 1, rest, element, &end);
    if (code == MPI_SUCCESS) {
        MPI_Count lengths[2] = {1, 1}, at[2] = {0, full * dim->sm};
        MPI_Datatype types[2] = {rows, end};
        code = PMPI_Type_create_struct_c(2, lengths, at, types, type);
        PMPI_Type_free(&end);
    }
    PMPI_Type_free(&rows);
    return code;
}

/* The datatype of one element of the section, and how many of them `count` of `datatype` are; -1 if `datatype` has gaps or
 * is no whole number of elements. `*made`: the element's type is a new one. */
static MPI_Count elements_in(const CFI_cdesc_t *array, MPI_Count count, MPI_Datatype datatype, MPI_Datatype *element,
                             int *made)
{
    MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0, element_bytes = (MPI_Count)array->elem_len;
    *made = 0;
    if (PMPI_Type_size_c(datatype, &size) != MPI_SUCCESS || size <= 0 || count < 0 ||
        PMPI_Type_get_extent_c(datatype, &lb, &extent) != MPI_SUCCESS || lb != 0 || extent != size ||
        PMPI_Type_get_true_extent_c(datatype, &true_lb, &true_extent) != MPI_SUCCESS || true_lb != 0 ||
        true_extent != size || element_bytes == 0 || count * size % element_bytes != 0) {
        return -1;
    }
    MPI_Count elements = count * size / element_bytes;
    if (elements > elements_of(array, array->rank)) return -1;
    *element = datatype;
    if (size == element_bytes) return elements;
    *made = 1;
    int code = element_bytes % size == 0
                   ? PMPI_Type_contiguous_c(element_bytes / size, datatype, element)
                   : PMPI_Type_contiguous_c(element_bytes, MPI_BYTE, element);
    return code == MPI_SUCCESS ? elements : -1;
}

int section_typed(struct section *section, const CFI_cdesc_t *array, MPI_Count count, int datatype, int can_copy,
                  int writes)
{
    if (is_plain(array)) {
        section->address = array->base_addr;
        return MPI_SUCCESS;
    }
    MPI_Datatype element;
    int made;
    MPI_Count elements = elements_in(array, count, to_MPI_Datatype(datatype), &element, &made);
    if (elements < 0) return can_copy ? section_copied(section, array, writes) : MPI_ERR_BUFFER;
    int code = first_elements(array, array->rank, elements, element, &section->type);
    if (made) PMPI_Type_free(&element);
    if (code != MPI_SUCCESS) return code;
    section->is_typed = 1;
    section->handle = of_MPI_Datatype(section->type);
    section->address = array->base_addr;
    return PMPI_Type_commit(&section->type);
}

int section_refused(struct section *section, const CFI_cdesc_t *array, int comm)
{
    section->address = array->base_addr;
    if (is_plain(array)) return MPI_SUCCESS;
    PMPI_Comm_call_errhandler(to_MPI_Comm(comm), MPI_ERR_BUFFER);
    return MPI_ERR_BUFFER;
}
