! mpi_f08: handles that compare, optional ierror, procedures of the user with abstract interfaces, sentinels, generics with
! large counts, statuses of both kinds, strings, memory as pointers.
module of_the_user
  use mpi_f08
  implicit none
  integer :: deleted = 0, caught = 0, freed = 0, cancelled = 0
contains
  ! Puts digits one after another: pairs of a number and a power of ten.
  subroutine digits(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:,:), b(:,:)
    integer :: bytes
    call MPI_Type_size(datatype, bytes)
    if (bytes /= 8) return
    call c_f_pointer(invec, a, [2, len])
    call c_f_pointer(inoutvec, b, [2, len])
    b(1,:) = a(1,:) * b(2,:) + b(1,:)
    b(2,:) = a(2,:) * b(2,:)
  end subroutine

  subroutine plus(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer(MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) return
    call c_f_pointer(invec, a, [len])
    call c_f_pointer(inoutvec, b, [len])
    b = a + b
  end subroutine

  subroutine copy_type(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Datatype) :: oldtype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    attribute_val_out = attribute_val_in + extra_state
    flag = oldtype /= MPI_DATATYPE_NULL .and. type_keyval /= MPI_KEYVAL_INVALID
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_type(datatype, type_keyval, attribute_val, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deleted = deleted + int(attribute_val)
    ierror = MPI_SUCCESS
  end subroutine

  ! Refuses to be deleted.
  subroutine keep(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    ierror = merge(MPI_ERR_OTHER, MPI_SUCCESS, attribute_val == 1)
  end subroutine

  subroutine handler(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    integer :: class
    call MPI_Error_class(error_code, class)
    if (comm /= MPI_COMM_NULL) caught = class
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 5
    status%MPI_TAG = 6
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    freed = freed + int(extra_state)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    cancelled = cancelled + int(extra_state)
    if (complete) cancelled = -1000
    ierror = MPI_SUCCESS
  end subroutine
end module

program f08_callbacks
  use of_the_user
  implicit none
  integer :: rank, size, errors, total
  errors = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call operations
  call attributes
  call error_handlers
  call requests_of_the_user
  call statuses
  call sentinels
  call strings
  call memory
  call generics
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

  subroutine operations
    type(MPI_Op) :: op
    type(MPI_Datatype) :: two
    integer :: mine(2,3), got(2,3), want, i, n
    logical :: commutes
    call MPI_Op_create(digits, .false., op)
    call MPI_Op_commutative(op, commutes)
    call check(.not. commutes, 'commutes')
    call MPI_Type_contiguous(2, MPI_INTEGER, two)
    call MPI_Type_commit(two)
    mine(1,:) = mod(rank, 8) + 1
    mine(2,:) = 10
    call MPI_Allreduce(mine, got, 3, two, op, MPI_COMM_WORLD)
    want = 0
    do i = 0, size - 1
      want = want * 10 + mod(i, 8) + 1
    end do
    if (size <= 9) call check(all(got(1,:) == want), 'operation')
    call MPI_Op_free(op)
    call check(op == MPI_OP_NULL, 'freed operation')
    call MPI_Type_free(two)
    call MPI_Op_create_c(plus, .true., op)
    call MPI_Allreduce(rank, n, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
    call check(n == size * (size - 1) / 2, 'operation with large counts')
    call MPI_Op_free(op)
  end subroutine

  subroutine attributes
    type(MPI_Datatype) :: one, two
    type(MPI_Comm) :: comm
    integer :: key, code
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
    call check(flag .and. value >= 32767, 'tag_ub')
    call MPI_Type_create_keyval(copy_type, delete_type, key, 100_MPI_ADDRESS_KIND)
    call MPI_Type_dup(MPI_INTEGER, one)
    call MPI_Type_set_attr(one, key, 11_MPI_ADDRESS_KIND)
    call MPI_Type_dup(one, two)
    call MPI_Type_get_attr(two, key, value, flag)
    call check(flag .and. value == 111, 'copied')
    call MPI_Type_free(one)
    call MPI_Type_free(two)
    call check(deleted == 122, 'deleted')
    call MPI_Type_free_keyval(key)
    call check(key == MPI_KEYVAL_INVALID, 'freed key')
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, keep, key, 0_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN)
    call MPI_Comm_set_attr(comm, key, 1_MPI_ADDRESS_KIND)
    call MPI_Comm_delete_attr(comm, key, code)
    call check(code /= MPI_SUCCESS, 'delete refused')
    call MPI_Comm_get_attr(comm, key, value, flag)
    call check(flag .and. value == 1, 'kept')
    call MPI_Comm_set_attr(comm, key, 2_MPI_ADDRESS_KIND, code)
    call check(code /= MPI_SUCCESS, 'replacing refused')
    call MPI_Comm_free(comm, code)
    call check(code /= MPI_SUCCESS, 'free refused')
  end subroutine

  subroutine error_handlers
    type(MPI_Comm) :: comm
    type(MPI_Errhandler) :: mine, got
    integer :: code, class, data
    data = 0
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_create_errhandler(handler, mine)
    call MPI_Comm_set_errhandler(comm, mine)
    call MPI_Comm_get_errhandler(comm, got)
    call check(got == mine, 'the handler')
    call MPI_Send(data, 1, MPI_INTEGER, 77, 0, comm, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_RANK .and. caught == MPI_ERR_RANK, 'caught')
    ! Without ierror the handler alone knows.
    call MPI_Send(data, -1, MPI_INTEGER, 0, 0, comm)
    call check(caught == MPI_ERR_COUNT, 'caught without ierror')
    call MPI_Errhandler_free(mine)
    call MPI_Errhandler_free(got)
    call MPI_Comm_free(comm)
  end subroutine

  subroutine requests_of_the_user
    type(MPI_Request) :: request, known
    type(MPI_Status) :: status
    integer :: n
    integer(MPI_ADDRESS_KIND), volatile :: extra
    logical :: flag
    extra = 4
    call MPI_Grequest_start(query, release, cancel, extra, request)
    known = request
    call MPI_Test(request, flag, status)
    call check(.not. flag .and. request == known, 'not complete')
    call MPI_Cancel(request)
    call check(cancelled == 4, 'cancelled')
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, n)
    call check(n == 4 .and. status%MPI_SOURCE == 5 .and. status%MPI_TAG == 6, 'queried')
    call check(freed == 4 .and. request == MPI_REQUEST_NULL, 'freed')
  end subroutine

  subroutine statuses
    type(MPI_Status) :: status, back, several(2)
    type(MPI_Request) :: requests(2)
    integer :: old(MPI_STATUS_SIZE), a, b, n, at, indices(2)
    call MPI_Irecv(a, 1, MPI_INTEGER, 0, 12, MPI_COMM_SELF, requests(1))
    call MPI_Irecv(b, 1, MPI_INTEGER, 0, 13, MPI_COMM_SELF, requests(2))
    call MPI_Send(rank, 1, MPI_INTEGER, 0, 13, MPI_COMM_SELF)
    call MPI_Waitany(2, requests, at, status)
    call check(at == 2 .and. status%MPI_TAG == 13 .and. b == rank, 'waitany')
    call MPI_Status_f082f(status, old)
    call check(old(MPI_TAG) == 13 .and. old(MPI_SOURCE) == 0, 'status as integers')
    call MPI_Status_f2f08(old, back)
    call MPI_Get_count(back, MPI_INTEGER, n)
    call check(n == 1 .and. back%MPI_TAG == 13, 'status, there and back')
    call MPI_Send(rank + 1, 1, MPI_INTEGER, 0, 12, MPI_COMM_SELF)
    call MPI_Waitsome(2, requests, n, indices, several)
    call check(n == 1 .and. indices(1) == 1 .and. several(1)%MPI_TAG == 12 .and. a == rank + 1, 'waitsome')
    call MPI_Waitsome(2, requests, n, indices, MPI_STATUSES_IGNORE)
    call check(n == MPI_UNDEFINED, 'waitsome of nothing')
  end subroutine

  subroutine sentinels
    integer, volatile :: a
    integer :: lengths(1), code
    integer(MPI_ADDRESS_KIND) :: at(1)
    type(MPI_Datatype) :: type, types(1)
    type(MPI_Comm) :: graph
    integer :: sources(1), weights(1)
    ! Volatile: the broadcast writes it by its address alone.
    call MPI_Get_address(a, at(1))
    lengths = 1
    types = MPI_INTEGER
    call MPI_Type_create_struct(1, lengths, at, types, type)
    call MPI_Type_commit(type)
    a = merge(4711, 0, rank == size - 1)
    call MPI_Bcast(MPI_BOTTOM, 1, type, size - 1, MPI_COMM_WORLD)
    call check(a == 4711, 'bottom')
    call MPI_Type_free(type)
    a = rank
    call MPI_Allreduce(MPI_IN_PLACE, a, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    call check(a == size - 1, 'in place')
    call MPI_Recv(a, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE)
    sources = 0
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, sources, MPI_UNWEIGHTED, 1, sources, MPI_UNWEIGHTED, &
        MPI_INFO_NULL, .false., graph, code)
    if (code == MPI_SUCCESS) then
      weights = -1
      call MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, weights, MPI_UNWEIGHTED)
      call check(weights(1) == 0, 'unweighted')
      call MPI_Comm_free(graph)
    else
      call MPI_Error_class(code, a)
      call check(a == MPI_ERR_UNSUPPORTED_OPERATION, 'no graph')
    end if
    call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL)
  end subroutine

  subroutine strings
    character(len=MPI_MAX_OBJECT_NAME) :: name
    character(len=4) :: short
    type(MPI_Info) :: info
    type(MPI_Comm) :: comm
    integer :: n
    logical :: flag
    call MPI_Comm_dup(MPI_COMM_SELF, comm)
    call MPI_Comm_set_name(comm, 'a name  ')
    call MPI_Comm_get_name(comm, name, n)
    call check(n == 6 .and. name == 'a name', 'name')
    call MPI_Comm_get_name(comm, short, n)
    call check(short == 'a na', 'name, cut')
    call MPI_Comm_free(comm)
    call MPI_Info_create(info)
    call MPI_Info_set(info, ' key', ' word ')
    n = 4
    call MPI_Info_get_string(info, 'key ', n, short, flag)
    call check(flag .and. n == 4 .and. short == 'word', 'info')
    call MPI_Info_free(info)
    call check(info == MPI_INFO_NULL, 'freed info')
  end subroutine

  subroutine memory
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr) :: at
    integer, pointer :: a(:)
    character, target :: buffer(2000)
    integer :: bytes
    integer(MPI_ADDRESS_KIND) :: there
    call MPI_Alloc_mem(400_MPI_ADDRESS_KIND, MPI_INFO_NULL, at)
    call c_f_pointer(at, a, [100])
    a = 3
    call MPI_Allreduce(MPI_IN_PLACE, a, 100, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check(all(a == 3 * size), 'allocated memory')
    call MPI_Free_mem(a)
    call MPI_Buffer_attach(buffer, 2000)
    call MPI_Buffer_detach(at, bytes)
    call MPI_Get_address(buffer, there)
    call check(bytes == 2000 .and. transfer(at, there) == there, 'detached buffer')
  end subroutine

  subroutine generics
    integer :: n
    integer(MPI_COUNT_KIND) :: large
    integer(MPI_ADDRESS_KIND) :: lb, extent
    type(MPI_Datatype) :: type
    call MPI_Type_size(MPI_DOUBLE_PRECISION, n)
    call MPI_Type_size(MPI_DOUBLE_PRECISION, large)
    call check(n == 8 .and. large == 8, 'size')
    call MPI_Type_vector(3_MPI_COUNT_KIND, 1_MPI_COUNT_KIND, 2_MPI_COUNT_KIND, MPI_INTEGER, type)
    call MPI_Type_get_extent(type, lb, extent)
    call check(lb == 0 .and. extent == 20, 'extent')
    call MPI_Type_get_extent_c(type, lb, extent)
    call check(lb == 0 .and. extent == 20, 'extent, large')
    call MPI_Type_free(type)
    call MPI_Sizeof(large, n)
    call check(n == 8, 'sizeof')
    call check(MPI_Aint_add(lb, extent) == 20 .and. MPI_Aint_diff(extent, lb) == 20, 'addresses')
    call check(MPI_Wtime() > 0 .and. MPI_Wtick() > 0, 'time')
    call check(PMPI_Wtime() > 0, 'time by its other name')
    call PMPI_Comm_size(MPI_COMM_SELF, n)
    call check(n == 1, 'a procedure by its other name')
  end subroutine
end program
