! mpi_f08: array sections as buffers of blocking, non-blocking, collective and one-element calls; values are compared with
! those that assignments of the same sections give.
program f08_sections
  use mpi_f08
  implicit none
  type pair
    integer :: number
    real(8) :: value
  end type
  integer :: rank, size, errors, total
  errors = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call check(MPI_SUBARRAYS_SUPPORTED, 'sections are supported')
  call point_to_point
  call part_of_a_section
  call large_counts
  call components
  call collectives
  call other_datatypes
  call refused
  call packing
  call MPI_Allreduce(errors, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
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

  subroutine fill(a)
    integer, intent(out) :: a(:,:,:)
    integer :: i
    a = reshape([(i + 1000 * rank, i = 1, product(shape(a)))], shape(a))
  end subroutine

  ! A section of three dimensions, with a negative stride, to a section of another shape.
  subroutine point_to_point
    integer :: a(7,5,4), b(9,8), left, i
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    integer, allocatable :: want(:)
    call fill(a)
    left = modulo(rank - 1, size)
    b = -1
    call MPI_Isend(a(7:1:-3, 2:5:3, ::2), 12, MPI_INTEGER, modulo(rank + 1, size), 3, MPI_COMM_WORLD, requests(1))
    call MPI_Irecv(b(2:8:2, 1:5:2), 12, MPI_INTEGER, left, 3, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    want = reshape(a(7:1:-3, 2:5:3, ::2), [12]) + 1000 * (left - rank)
    call check(all(reshape(b(2:8:2, 1:5:2), [12]) == want), 'isend and irecv')
    b(2:8:2, 1:5:2) = -1
    call check(all(b == -1), 'isend and irecv: beside the section')
    call MPI_Sendrecv(a(1,:,1), 5, MPI_INTEGER, modulo(rank + 1, size), 4, b(3,:), 8, MPI_INTEGER, left, 4, &
        MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_INTEGER, i)
    call check(i == 5 .and. status%MPI_SOURCE == left .and. status%MPI_TAG == 4, 'sendrecv: status')
    call check(all(b(3,1:5) == a(1,:,1) + 1000 * (left - rank)), 'sendrecv')
    call check(all(b(3,6:8) == -1), 'sendrecv: more was written')
  end subroutine

  ! Fewer elements than the section has, so that the last row is cut.
  subroutine part_of_a_section
    integer :: a(6,5,3), b(6,5,3), count
    integer, allocatable :: x(:), y(:)
    type(MPI_Request) :: request
    do count = 0, 27
      call fill(a)
      b = -1
      call MPI_Isend(a(1:6:2, 1:5:2, :), count, MPI_INTEGER, 0, 5, MPI_COMM_SELF, request)
      call MPI_Recv(b(2:6:2, 1:5:2, :), count, MPI_INTEGER, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE)
      call MPI_Wait(request, MPI_STATUS_IGNORE)
      x = reshape(a(1:6:2, 1:5:2, :), [27])
      y = reshape(b(2:6:2, 1:5:2, :), [27])
      call check(all(x(1:count) == y(1:count)) .and. all(y(count+1:) == -1), 'a part of a section')
      call check(all(b(1:5:2, :, :) == -1), 'beside a part of a section')
    end do
  end subroutine

  subroutine large_counts
    integer :: a(10), b(10)
    integer(MPI_COUNT_KIND) :: n
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    a = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    b = 0
    call MPI_Irecv(b(::3), 4_MPI_COUNT_KIND, MPI_INTEGER, 0, 1, MPI_COMM_SELF, request)
    call MPI_Send(a(2::3), 3_MPI_COUNT_KIND, MPI_INTEGER, 0, 1, MPI_COMM_SELF)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 3 .and. all(b == [2, 0, 0, 5, 0, 0, 8, 0, 0, 0]), 'large counts')
  end subroutine

  ! A component of an array of a derived type: the stride is no multiple of the element.
  subroutine components
    type(pair) :: some(9)
    integer :: i
    some%value = [(i * 0.5d0, i = 1, 9)]
    some%number = 7
    call MPI_Allreduce(MPI_IN_PLACE, some(1:9:2)%value, 5, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    call check(all(some(1:9:2)%value == [(i * 0.5d0 * size, i = 1, 9, 2)]), 'a component: sum')
    call check(all(some(2:8:2)%value == [(i * 0.5d0, i = 2, 8, 2)]), 'a component: beside it')
    call check(all(some%number == 7), 'a component: the other one')
  end subroutine

  subroutine collectives
    integer :: a(4,3), b(2,3,0:size-1), c(0:2*size-1), i
    integer, allocatable :: all_of_them(:,:)
    type(MPI_Request) :: request
    a = rank
    if (rank == 0) a(2,:) = [5, 6, 7]
    call MPI_Ibcast(a(2,:), 3, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(a(2,:) == [5, 6, 7]) .and. all(a(1,:) == rank) .and. all(a(3:4,:) == rank), 'ibcast')
    a(3,:) = [1, 2, 3] + 10 * rank
    b = -1
    call MPI_Allgather(a(3,:), 3, MPI_INTEGER, b(2,:,:), 3, MPI_INTEGER, MPI_COMM_WORLD)
    do i = 0, size - 1
      call check(all(b(2,:,i) == [1, 2, 3] + 10 * i), 'allgather')
    end do
    call check(all(b(1,:,:) == -1), 'allgather: beside the section')
    allocate (all_of_them(0:1, 0:size-1))
    all_of_them(0,:) = [(100 * rank + i, i = 0, size - 1)]
    all_of_them(1,:) = -1
    c = -1
    call MPI_Alltoall(all_of_them(0,:), 1, MPI_INTEGER, c(::2), 1, MPI_INTEGER, MPI_COMM_WORLD)
    call check(all(c(::2) == [(100 * i + rank, i = 0, size - 1)]) .and. all(c(1::2) == -1), 'alltoall')
    call MPI_Reduce_scatter_block(all_of_them(0,:), i, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    call check(i == 100 * (size - 1) + rank, 'reduce_scatter_block')
  end subroutine

  ! Bytes, halves of elements and several elements as the datatype.
  subroutine other_datatypes
    complex(8) :: a(8), b(8)
    type(MPI_Datatype) :: two
    type(MPI_Request) :: request
    integer :: i
    a = [(cmplx(i, -i, 8), i = 1, 8)]
    call MPI_Type_contiguous(2, MPI_DOUBLE_COMPLEX, two)
    call MPI_Type_commit(two)
    b = 0
    call MPI_Isend(a(::2), 64, MPI_BYTE, 0, 1, MPI_COMM_SELF, request)
    call MPI_Recv(b(2::2), 64, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(b(2::2) == a(::2)) .and. all(b(::2) == 0), 'bytes')
    b = 0
    call MPI_Isend(a(::2), 8, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_SELF, request)
    call MPI_Recv(b(2::2), 2, two, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(b(2::2) == a(::2)) .and. all(b(::2) == 0), 'halves and pairs of elements')
    ! A part of an element: only a copy can do it, so only a blocking call.
    b = 0
    call MPI_Isend(a(1), 24, MPI_BYTE, 0, 1, MPI_COMM_SELF, request)
    call MPI_Recv(b(2::2), 24, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(b(2) == a(1) .and. b(4) == cmplx(2, 0, 8) .and. all(b(::2) == 0), 'one element and a half')
    call MPI_Type_free(two)
    call check(two == MPI_DATATYPE_NULL, 'freed type')
  end subroutine

  ! A non-blocking reduction into a section with gaps: an error, not wrong values.
  subroutine refused
    integer :: a(6), code, class
    type(MPI_Comm) :: comm
    type(MPI_Request) :: request
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
    a = 1
    call MPI_Iallreduce(MPI_IN_PLACE, a(::2), 3, MPI_INTEGER, MPI_SUM, comm, request, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_BUFFER, 'refused')
    call MPI_Comm_free(comm)
  end subroutine

  subroutine packing
    integer :: a(4,4), b(4,4), position, i
    character :: buffer(200)
    a = reshape([(i, i = 1, 16)], [4, 4])
    b = 0
    position = 0
    call MPI_Pack(a(2,:), 4, MPI_INTEGER, buffer(2:200:2), 100, position, MPI_COMM_SELF)
    position = 0
    call MPI_Unpack(buffer(2:200:2), 100, position, b(3,:), 4, MPI_INTEGER, MPI_COMM_SELF)
    call check(all(b(3,:) == a(2,:)) .and. sum(b) == sum(a(2,:)), 'pack and unpack')
  end subroutine
end program
