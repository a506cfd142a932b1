/* The common blocks of MPICH's mpif.h. A program that includes it has them, too, and then these are the
 * program's. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "binding.h"

/* As compilers align common blocks. */
#define SENTINEL __attribute__((aligned(32)))
SENTINEL struct mpipriv1 mpipriv1_;
SENTINEL struct mpipriv2 mpipriv2_;
SENTINEL struct mpiprivc mpiprivc_;
SENTINEL int mpifcmb5_[1], mpifcmb9_[1];

extern MPI_Fint *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
extern MPI_F08_status *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;

/* C programs know Fortran's statuses by these. */
__attribute__((constructor)) static void announce(void)
{
    MPI_F_STATUS_IGNORE = mpipriv1_.status_ignore;
    MPI_F_STATUSES_IGNORE = mpipriv2_.statuses_ignore;
    MPI_F08_STATUS_IGNORE = (MPI_F08_status *)MPI_F_STATUS_IGNORE;
    MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)MPI_F_STATUSES_IGNORE;
}
