/* Version, time, memory, phases, the ABI's own inquiries. */
#include "check.h"
#include <stdint.h>

int main(void)
{
    int flag, major, minor, length, level, nkeys;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    void *memory;

    OK(MPI_Initialized(&flag)); CHECK(!flag);
    OK(MPI_Finalized(&flag)); CHECK(!flag);
    OK(MPI_Get_version(&major, &minor)); CHECK(major == 5 && minor == 0);
    OK(MPI_Get_library_version(text, &length)); CHECK((int)strlen(text) == length && strstr(text, "Ayatori"));
    OK(MPI_Abi_get_version(&major, &minor)); CHECK(major == 1 && minor == 0);
    OK(MPI_Abi_get_info(&info));
    OK(MPI_Info_get_nkeys(info, &nkeys)); CHECK(nkeys == 3);
    length = sizeof text;
    OK(MPI_Info_get_string(info, "mpi_aint_size", &length, text, &flag)); CHECK(flag && atoi(text) == sizeof(MPI_Aint));
    OK(MPI_Info_free(&info)); CHECK(info == MPI_INFO_NULL);

    OK(MPI_Abi_get_fortran_info(&info)); CHECK(info == MPI_INFO_NULL);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_logical_size", "4"));
    OK(MPI_Abi_set_fortran_info(info));
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_get_fortran_info(&info)); CHECK(info != MPI_INFO_NULL);
    int32_t yes = 1, no = 0, is_yes = 7, is_no = 7;
    OK(MPI_Abi_get_fortran_booleans(4, &is_yes, &is_no, &flag)); CHECK(!flag && is_yes == 7);
    OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    OK(MPI_Abi_get_fortran_booleans(4, &is_yes, &is_no, &flag)); CHECK(flag && is_yes == 1 && is_no == 0);

    OK(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level)); CHECK(level == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_ABI, MPI_Abi_set_fortran_info(info));
    FAILS(MPI_ERR_ABI, MPI_Abi_set_fortran_booleans(4, &yes, &no));
    FAILS(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(3, &yes, &no));
    FAILS(MPI_ERR_OTHER, MPI_Init(NULL, NULL));
    OK(MPI_Query_thread(&level)); CHECK(level == MPI_THREAD_MULTIPLE);
    OK(MPI_Is_thread_main(&flag)); CHECK(flag);
    OK(MPI_Initialized(&flag)); CHECK(flag);
    OK(MPI_Get_processor_name(text, &length)); CHECK(length > 0 && (int)strlen(text) == length);
    OK(MPI_Pcontrol(1)); OK(MPI_Pcontrol(2, 3, "more"));

    OK(MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory)); CHECK((uintptr_t)memory % 64 == 0);
    memset(memory, 1, 1000);
    OK(MPI_Free_mem(memory));
    OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
    OK(MPI_Alloc_mem(0, info, &memory)); CHECK(memory && (uintptr_t)memory % 4096 == 0);
    OK(MPI_Free_mem(memory));
    FAILS(MPI_ERR_ARG, MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory));
    FAILS(MPI_ERR_NO_MEM, MPI_Alloc_mem(INTPTR_MAX, MPI_INFO_NULL, &memory));

    double start_seconds = MPI_Wtime();
    CHECK(MPI_Wtime() >= start_seconds && MPI_Wtick() > 0 && MPI_Wtick() < 1e-5);
    CHECK(MPI_Aint_diff(MPI_Aint_add(100, 23), 23) == 100);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info && MPI_Info_toint(info) > 0);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
    OK(MPI_Info_free(&info));

    /* The names of tools are the same functions. */
    CHECK(PMPI_Comm_rank == MPI_Comm_rank);

    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag)); CHECK(flag);
    OK(MPI_Initialized(&flag)); CHECK(flag);
    return failures ? 1 : 0;
}
