/* What fortran/c/binding.h needs of a foreign ABI.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TRANSLATE_FORTRAN_H
#define TRANSLATE_FORTRAN_H

#define HANDLE(Kind, name) \
    extern name PMPI_##Kind##_f2c(MPI_Fint); \
    extern MPI_Fint PMPI_##Kind##_c2f(name); \
    static inline name to_##name(int handle) \
    { \
        return PMPI_##Kind##_f2c(handle); \
    } \
    static inline int of_##name(name handle) \
    { \
        return PMPI_##Kind##_c2f(handle); \
    }
HANDLE(Comm, MPI_Comm)
HANDLE(Errhandler, MPI_Errhandler)
HANDLE(File, MPI_File)
HANDLE(Group, MPI_Group)
HANDLE(Info, MPI_Info)
HANDLE(Message, MPI_Message)
HANDLE(Op, MPI_Op)
HANDLE(Request, MPI_Request)
HANDLE(Session, MPI_Session)
HANDLE(Type, MPI_Datatype)
HANDLE(Win, MPI_Win)
#undef HANDLE

#ifdef TRANSLATE_MPICH
/* The keys of predefined attributes are those of C plus one. */
#define KEYVAL_OF_C(keyval) ((keyval) >= MPI_TAG_UB && !((keyval) & 1) ? (keyval) - 1 : (keyval))

/* In the common blocks of its mpif.h several stand side by side. */
extern struct mpipriv1 {
    int bottom, in_place, status_ignore[5];
} mpipriv1_;
extern struct mpipriv2 {
    int statuses_ignore[5], errcodes_ignore[1];
} mpipriv2_;
extern struct mpiprivc {
    char argvs_null[1], argv_null[1];
} mpiprivc_;
extern int mpifcmb5_[1], mpifcmb9_[1];
#define ayatori_bottom_ mpipriv1_.bottom
#define ayatori_in_place_ mpipriv1_.in_place
#define ayatori_status_ignore_ mpipriv1_.status_ignore
#define ayatori_statuses_ignore_ mpipriv2_.statuses_ignore
#define ayatori_errcodes_ignore_ mpipriv2_.errcodes_ignore
#define ayatori_unweighted_ mpifcmb5_
#define ayatori_weights_empty_ mpifcmb9_
#define ayatori_argv_null_ mpiprivc_.argv_null
#define ayatori_argvs_null_ mpiprivc_.argvs_null
#else
#define KEYVAL_OF_C(keyval) (keyval)

extern int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_errcodes_ignore_[1];
extern int mpi_fortran_unweighted_[1], mpi_fortran_weights_empty_[1];
extern int mpi_fortran_status_ignore_[6], mpi_fortran_statuses_ignore_[6];
extern char mpi_fortran_argv_null_[1], mpi_fortran_argvs_null_[1];
#define ayatori_bottom_ mpi_fortran_bottom_
#define ayatori_in_place_ mpi_fortran_in_place_
#define ayatori_status_ignore_ mpi_fortran_status_ignore_
#define ayatori_statuses_ignore_ mpi_fortran_statuses_ignore_
#define ayatori_errcodes_ignore_ mpi_fortran_errcodes_ignore_
#define ayatori_unweighted_ mpi_fortran_unweighted_
#define ayatori_weights_empty_ mpi_fortran_weights_empty_
#define ayatori_argv_null_ mpi_fortran_argv_null_
#define ayatori_argvs_null_ mpi_fortran_argvs_null_
/* A procedure of Fortran that has no extra state gets the integer of a handle, not its address: see
 * callbacks.c. */
#define MPI_Op_create ayatori_fortran_Op_create
#define PMPI_Op_create ayatori_fortran_Op_create
#define MPI_Op_create_c ayatori_fortran_Op_create_c
#define PMPI_Op_create_c ayatori_fortran_Op_create_c
#define MPI_Comm_create_errhandler ayatori_fortran_Comm_create_errhandler
#define PMPI_Comm_create_errhandler ayatori_fortran_Comm_create_errhandler
#define MPI_File_create_errhandler ayatori_fortran_File_create_errhandler
#define PMPI_File_create_errhandler ayatori_fortran_File_create_errhandler
#define MPI_Win_create_errhandler ayatori_fortran_Win_create_errhandler
#define PMPI_Win_create_errhandler ayatori_fortran_Win_create_errhandler
#define MPI_Session_create_errhandler ayatori_fortran_Session_create_errhandler
#define PMPI_Session_create_errhandler ayatori_fortran_Session_create_errhandler
#define NEW_ERRHANDLER(Kind) \
    extern int ayatori_fortran_##Kind##_create_errhandler(MPI_##Kind##_errhandler_function *, \
                                                          MPI_Errhandler *);
NEW_ERRHANDLER(Comm)
NEW_ERRHANDLER(File)
NEW_ERRHANDLER(Win)
NEW_ERRHANDLER(Session)
extern int ayatori_fortran_Op_create(MPI_User_function *, int, MPI_Op *);
extern int ayatori_fortran_Op_create_c(MPI_User_function_c *, int, MPI_Op *);
#endif

#endif
