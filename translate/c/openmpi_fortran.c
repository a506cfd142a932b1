/* What Open MPI's libmpi_mpifh.so.40 has besides procedures of MPI.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

/* MPI_F_sync_reg does nothing: it is called so that a compiler expects the buffer to change. */
extern void ompi_f_sync_reg_f(void *buffer), mpi_f_sync_reg_(void *buffer), pmpi_f_sync_reg_(void *buffer);
void ompi_f_sync_reg_f(void *buffer)
{
    (void)buffer;
}
void mpi_f_sync_reg_(void *buffer) __attribute__((weak, alias("ompi_f_sync_reg_f")));
void pmpi_f_sync_reg_(void *buffer) __attribute__((weak, alias("ompi_f_sync_reg_f")));
