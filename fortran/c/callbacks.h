/* C functions that stand for the user's Fortran procedures, where a cast does not do.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef AYATORI_FORTRAN_CALLBACKS_H
#define AYATORI_FORTRAN_CALLBACKS_H

#include "binding.h"

/* An attribute that Fortran set: C programs get its address, as the standard wants, and Fortran its value. */
struct attribute {
    MPI_Aint value;
};
HIDDEN struct attribute *attribute_new(MPI_Aint value);
HIDDEN void attribute_free(struct attribute *cell);
/* What Fortran gets for the C attribute `found` under `keyval`. */
HIDDEN MPI_Aint attribute_value(int keyval, void *found);

/* The procedures of an attribute key. `narrow`: of MPI-1, with INTEGER attributes. Lives on: keys with the same
 * procedures and extra state share it. */
struct keyval {
    procedure copy, del;
    MPI_Aint extra;
    int narrow;
    struct keyval *next;
};
HIDDEN struct keyval *keyval_state(procedure copy, procedure del, MPI_Aint extra, int narrow);

HIDDEN MPI_Comm_copy_attr_function comm_copy;
HIDDEN MPI_Comm_delete_attr_function comm_delete;
HIDDEN MPI_Type_copy_attr_function type_copy;
HIDDEN MPI_Type_delete_attr_function type_delete;
HIDDEN MPI_Win_copy_attr_function win_copy;
HIDDEN MPI_Win_delete_attr_function win_delete;

/* A generalized request. Its procedures get the very variable that was the extra state, not its value: other libraries do
 * that, too, and programs let their procedures change it. */
struct grequest;
HIDDEN struct grequest *grequest_new(procedure query, procedure release, procedure cancel, MPI_Aint *extra);
HIDDEN MPI_Grequest_query_function grequest_query;
HIDDEN MPI_Grequest_free_function grequest_free;
HIDDEN MPI_Grequest_cancel_function grequest_cancel;

/* A data representation. */
struct datarep;
HIDDEN struct datarep *datarep_new(procedure read, procedure write, procedure extent, MPI_Aint extra);
HIDDEN int is_null_conversion(procedure conversion);
HIDDEN MPI_Datarep_conversion_function datarep_read, datarep_write;
HIDDEN MPI_Datarep_conversion_function_c datarep_read_c, datarep_write_c;
HIDDEN MPI_Datarep_extent_function datarep_extent;

#endif
