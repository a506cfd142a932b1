/* What MPICH's libmpi.so.12 has besides functions of MPI.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "translate.h"

/* Programs know these by what they hold. */
int *const MPI_UNWEIGHTED = A_MPI_UNWEIGHTED;
int *const MPI_WEIGHTS_EMPTY = A_MPI_WEIGHTS_EMPTY;
MPI_T_pvar_handle const MPI_T_PVAR_ALL_HANDLES = (MPI_T_pvar_handle)A_MPI_T_PVAR_ALL_HANDLES;

int MPIR_Dup_fn(MPI_Comm comm, int keyval, void *extra_state, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra_state;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

int is_predefined_copy(const void *function, int *is_dup)
{
    *is_dup = function == (const void *)MPIR_Dup_fn;
    return *is_dup || function == NULL;
}

int is_null_delete(const void *function)
{
    return function == NULL;
}

/* The library for Fortran sets them. */
MPI_Fint *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
MPI_F08_status *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;
