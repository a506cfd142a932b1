/* What Open MPI's libmpi.so.40 has besides functions of MPI and predefined handles.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "translate.h"

#define COPY(name, Handle, body) \
    int name(Handle object, int keyval, void *extra_state, void *in, void *out, int *flag) \
    { \
        (void)object, (void)keyval, (void)extra_state, (void)in, (void)out; \
        body return MPI_SUCCESS; \
    }
#define DUP \
    *(void **)out = in; \
    *flag = 1;
#define NOT *flag = 0;
COPY(OMPI_C_MPI_DUP_FN, MPI_Comm, DUP)
COPY(OMPI_C_MPI_COMM_DUP_FN, MPI_Comm, DUP)
COPY(OMPI_C_MPI_TYPE_DUP_FN, MPI_Datatype, DUP)
COPY(OMPI_C_MPI_WIN_DUP_FN, MPI_Win, DUP)
COPY(OMPI_C_MPI_NULL_COPY_FN, MPI_Comm, NOT)
COPY(OMPI_C_MPI_COMM_NULL_COPY_FN, MPI_Comm, NOT)
COPY(OMPI_C_MPI_TYPE_NULL_COPY_FN, MPI_Datatype, NOT)
COPY(OMPI_C_MPI_WIN_NULL_COPY_FN, MPI_Win, NOT)

#define DELETE(name, Handle) \
    int name(Handle object, int keyval, void *value, void *extra_state) \
    { \
        (void)object, (void)keyval, (void)value, (void)extra_state; \
        return MPI_SUCCESS; \
    }
DELETE(OMPI_C_MPI_NULL_DELETE_FN, MPI_Comm)
DELETE(OMPI_C_MPI_COMM_NULL_DELETE_FN, MPI_Comm)
DELETE(OMPI_C_MPI_TYPE_NULL_DELETE_FN, MPI_Datatype)
DELETE(OMPI_C_MPI_WIN_NULL_DELETE_FN, MPI_Win)

#define IS(name) (function == (const void *)OMPI_C_MPI_##name)

int is_predefined_copy(const void *function, int *is_dup)
{
    *is_dup = IS(DUP_FN) || IS(COMM_DUP_FN) || IS(TYPE_DUP_FN) || IS(WIN_DUP_FN);
    return *is_dup || function == NULL || IS(NULL_COPY_FN) || IS(COMM_NULL_COPY_FN) ||
           IS(TYPE_NULL_COPY_FN) || IS(WIN_NULL_COPY_FN);
}

int is_null_delete(const void *function)
{
    return function == NULL || IS(NULL_DELETE_FN) || IS(COMM_NULL_DELETE_FN) || IS(TYPE_NULL_DELETE_FN) ||
           IS(WIN_NULL_DELETE_FN);
}

/* The sentinels of Fortran: common blocks, which C knows by their addresses. */
#define SENTINEL __attribute__((aligned(32)))
SENTINEL int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_errcodes_ignore_;
SENTINEL int mpi_fortran_unweighted_, mpi_fortran_weights_empty_;
SENTINEL int mpi_fortran_status_ignore_[6], mpi_fortran_statuses_ignore_[6];
SENTINEL char mpi_fortran_argv_null_, mpi_fortran_argvs_null_;
MPI_Fint *MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_;
MPI_Fint *MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
MPI_F08_status *MPI_F08_STATUS_IGNORE = (MPI_F08_status *)mpi_fortran_status_ignore_;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)mpi_fortran_statuses_ignore_;
