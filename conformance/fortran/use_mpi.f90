! Module mpi: buffers of any type and rank through explicit interfaces, kinds, allocated memory by address and by pointer,
! datatypes by precision, statuses of both kinds.
program use_mpi
  use mpi
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer :: ierr, rank, size, errors, total
  errors = 0
  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierr)
  call check(.not. MPI_SUBARRAYS_SUPPORTED, 'sections are copied by the compiler')
  call buffers
  call memory
  call by_precision
  call statuses
  call MPI_ALLREDUCE(errors, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_FINALIZE(ierr)
  if (rank == 0 .and. total == 0) print *, 'No Errors'
  if (total /= 0) stop 1
contains
  subroutine check(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    if (ok) return
    print *, 'wrong: ', what
    errors = errors + 1
  end subroutine

  subroutine buffers
    type record
      integer :: a
      character(len=3) :: b
    end type
    integer :: i, square(3,3)
    real :: x
    complex :: z(2)
    character(len=5) :: word
    logical :: flag
    type(record) :: r
    i = merge(9, 0, rank == 0)
    call MPI_BCAST(i, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    call check(i == 9, 'integer')
    square = rank
    if (rank == 0) square(2,:) = [1, 2, 3]
    ! The compiler copies the section and copies it back.
    call MPI_BCAST(square(2,:), 3, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    call check(all(square(2,:) == [1, 2, 3]) .and. all(square(1,:) == rank), 'section')
    x = rank
    call MPI_ALLREDUCE(MPI_IN_PLACE, x, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, ierr)
    call check(x == size - 1, 'real')
    z = cmplx(1, rank)
    call MPI_ALLREDUCE(MPI_IN_PLACE, z, 2, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(all(z == cmplx(size, size * (size - 1) / 2)), 'complex')
    word = merge('hello', '-----', rank == 0)
    call MPI_BCAST(word, 5, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierr)
    call check(word == 'hello', 'character')
    flag = rank /= 0
    call MPI_BCAST(flag, 1, MPI_LOGICAL, 0, MPI_COMM_WORLD, ierr)
    call check(.not. flag, 'logical')
    r = record(rank, 'abc')
    if (rank == 0) r = record(-5, 'xyz')
    call MPI_BCAST(r, storage_size(r) / 8, MPI_BYTE, 0, MPI_COMM_WORLD, ierr)
    call check(r%a == -5 .and. r%b == 'xyz', 'derived type')
  end subroutine

  subroutine memory
    integer(kind=MPI_ADDRESS_KIND) :: address, there
    type(c_ptr) :: pointer
    integer, pointer :: a(:)
    integer :: n
    double precision :: d(2)
    call MPI_ALLOC_MEM(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, pointer, ierr)
    call c_f_pointer(pointer, a, [20])
    a = 5
    call MPI_GET_ADDRESS(a, there, ierr)
    call MPI_FREE_MEM(a, ierr)
    call check(ierr == MPI_SUCCESS .and. there /= 0, 'memory by pointer')
    call MPI_ALLOC_MEM(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, address, ierr)
    call check(address /= 0, 'memory by address')
    call MPI_GET_ADDRESS(d(1), address, ierr)
    call MPI_GET_ADDRESS(d(2), there, ierr)
    call check(MPI_AINT_DIFF(there, address) == 8, 'addresses')
    call MPI_SIZEOF(d, n, ierr)
    call check(n == 8, 'sizeof')
  end subroutine

  subroutine by_precision
    integer, parameter :: wide = selected_real_kind(14, 100), long = selected_int_kind(15)
    real(wide) :: x
    integer(long) :: i
    integer :: t, n
    call MPI_TYPE_CREATE_F90_REAL(14, 100, t, ierr)
    call MPI_TYPE_SIZE(t, n, ierr)
    call check(n == storage_size(x) / 8, 'real by precision')
    x = rank
    call MPI_ALLREDUCE(MPI_IN_PLACE, x, 1, t, MPI_SUM, MPI_COMM_WORLD, ierr)
    call check(x == size * (size - 1) / 2, 'sum of reals by precision')
    call MPI_TYPE_CREATE_F90_INTEGER(15, t, ierr)
    i = 2_long ** 40
    call MPI_ALLREDUCE(MPI_IN_PLACE, i, 1, t, MPI_MAX, MPI_COMM_WORLD, ierr)
    call check(i == 2_long ** 40, 'integers by range')
    call MPI_TYPE_MATCH_SIZE(MPI_TYPECLASS_REAL, 4, t, ierr)
    call check(t == MPI_REAL .or. t == MPI_REAL4, 'real by size')
  end subroutine

  subroutine statuses
    integer :: status(MPI_STATUS_SIZE), n
    type(MPI_Status) :: new
    type(MPI_Comm) :: world
    call MPI_SENDRECV(rank, 1, MPI_INTEGER, 0, 21, n, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &
        status, ierr)
    call check(status(MPI_TAG) == 21 .and. n == rank, 'status')
    call MPI_STATUS_F2F08(status, new, ierr)
    call check(new%MPI_TAG == 21 .and. new%MPI_SOURCE == 0, 'status as a type')
    world%MPI_VAL = MPI_COMM_WORLD
    call check(world == MPI_Comm(MPI_COMM_WORLD), 'a handle as a type')
  end subroutine
end program
