/* The functions that MPI-3.0 removed, by their successors, for old programs: addresses are INTEGERs there, so one that does
 * not fit is an error. Compiled twice, see binding.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "binding.h"

/* Stores an address in an INTEGER. */
static int narrow(MPI_Aint address, int *to)
{
    if (address != (int)address) {
        PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_VALUE_TOO_LARGE);
        return MPI_ERR_VALUE_TOO_LARGE;
    }
    *to = (int)address;
    return MPI_SUCCESS;
}

/* Displacements as wide as C wants them; NULL without memory. */
static MPI_Aint *widened(const int *displacements, MPI_Aint *few, int count)
{
    MPI_Aint *wide = room(few, FEW * sizeof *few, length_of(count) * sizeof *wide);
    for (int i = 0; wide != NULL && i < count; i++) wide[i] = displacements[i];
    return wide;
}

void F(address)(void *location, int *address, int *ierror);
void F(address)(void *location, int *address, int *ierror)
{
    MPI_Aint at = 0;
    int code = C(Get_address)(choice(location), &at);
    *ierror = code == MPI_SUCCESS ? narrow(at, address) : code;
}

void F(type_extent)(const int *datatype, int *extent, int *ierror);
void F(type_extent)(const int *datatype, int *extent, int *ierror)
{
    MPI_Aint lb = 0, found = 0;
    int code = C(Type_get_extent)(to_MPI_Datatype(*datatype), &lb, &found);
    *ierror = code == MPI_SUCCESS ? narrow(found, extent) : code;
}

void F(type_lb)(const int *datatype, int *displacement, int *ierror);
void F(type_lb)(const int *datatype, int *displacement, int *ierror)
{
    MPI_Aint lb = 0, extent = 0;
    int code = C(Type_get_extent)(to_MPI_Datatype(*datatype), &lb, &extent);
    *ierror = code == MPI_SUCCESS ? narrow(lb, displacement) : code;
}

void F(type_ub)(const int *datatype, int *displacement, int *ierror);
void F(type_ub)(const int *datatype, int *displacement, int *ierror)
{
    MPI_Aint lb = 0, extent = 0;
    int code = C(Type_get_extent)(to_MPI_Datatype(*datatype), &lb, &extent);
    *ierror = code == MPI_SUCCESS ? narrow(lb + extent, displacement) : code;
}

void F(type_hvector)(const int *count, const int *length, const int *stride, const int *old, int *new, int *ierror);
void F(type_hvector)(const int *count, const int *length, const int *stride, const int *old, int *new, int *ierror)
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
    int code = C(Type_create_hvector)(*count, *length, *stride, to_MPI_Datatype(*old), &made);
    if (code == MPI_SUCCESS) *new = of_MPI_Datatype(made);
    *ierror = code;
}

void F(type_hindexed)(const int *count, const int *lengths, const int *displacements, const int *old, int *new,
                      int *ierror);
void F(type_hindexed)(const int *count, const int *lengths, const int *displacements, const int *old, int *new,
                      int *ierror)
{
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Aint few[FEW] = {0}, *wide = widened(displacements, few, *count);
    int code = MPI_ERR_NO_MEM;
    if (wide != NULL) code = C(Type_create_hindexed)(*count, lengths, wide, to_MPI_Datatype(*old), &made);
    if (code == MPI_SUCCESS) *new = of_MPI_Datatype(made);
    leave(few, wide);
    *ierror = code;
}

void F(type_struct)(const int *count, const int *lengths, const int *displacements, const int *types, int *new,
                    int *ierror);
void F(type_struct)(const int *count, const int *lengths, const int *displacements, const int *types, int *new,
                    int *ierror)
{
    MPI_Datatype made = MPI_DATATYPE_NULL, few_types[FEW];
    MPI_Aint few[FEW] = {0}, *wide = widened(displacements, few, *count);
    MPI_Datatype *c_types = room(few_types, sizeof few_types, length_of(*count) * sizeof *c_types);
    int code = MPI_ERR_NO_MEM;
    if (wide != NULL && c_types != NULL) {
        for (int i = 0; i < *count; i++) c_types[i] = to_MPI_Datatype(types[i]);
        code = C(Type_create_struct)(*count, lengths, wide, c_types, &made);
    }
    if (code == MPI_SUCCESS) *new = of_MPI_Datatype(made);
    leave(few, wide);
    leave(few_types, c_types);
    *ierror = code;
}

void F(errhandler_create)(procedure function, int *handler, int *ierror);
void F(errhandler_create)(procedure function, int *handler, int *ierror)
{
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    int code = C(Comm_create_errhandler)((MPI_Comm_errhandler_function *)function, &made);
    if (code == MPI_SUCCESS) *handler = of_MPI_Errhandler(made);
    *ierror = code;
}

void F(errhandler_get)(const int *comm, int *handler, int *ierror);
void F(errhandler_get)(const int *comm, int *handler, int *ierror)
{
    MPI_Errhandler found = MPI_ERRHANDLER_NULL;
    int code = C(Comm_get_errhandler)(to_MPI_Comm(*comm), &found);
    if (code == MPI_SUCCESS) *handler = of_MPI_Errhandler(found);
    *ierror = code;
}

void F(errhandler_set)(const int *comm, const int *handler, int *ierror);
void F(errhandler_set)(const int *comm, const int *handler, int *ierror)
{
    *ierror = C(Comm_set_errhandler)(to_MPI_Comm(*comm), to_MPI_Errhandler(*handler));
}
