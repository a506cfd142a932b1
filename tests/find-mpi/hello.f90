! Says which rank this is, of how many, and on which library.
program hello
    use mpi_f08
    implicit none
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: library
    integer :: rank, size, length, ending
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, size)
    call MPI_Get_library_version(library, length)
    ending = index(library(:length), new_line('a')) - 1
    if (ending < 0) ending = length
    print '(i0, a, i0, a, a)', rank, ' of ', size, ' on ', library(:ending)
    call MPI_Finalize()
end program hello
