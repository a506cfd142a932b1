/* Check mode: arguments that differ between ranks are an error at all of them, which says who differs, in
 * blocking, non-blocking and persistent calls; what agrees works as ever. */
#include "check.h"
#if defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif

enum { ITEMS = 12 };

static MPI_Comm comm;
static void lengths(void)
{
    int data[ITEMS] = {0}, all[ITEMS * 64], is_last = check_rank == check_size - 1;
    FAILS(MPI_Bcast(data, is_last ? 2 : 3, MPI_INT, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allreduce(data, all, 1 + is_last, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allgather(data, 1 + is_last, MPI_INT, all, 1 + is_last, MPI_INT, comm), MPI_ERR_COUNT);
    FAILS(MPI_Scan(data, all, 1 + is_last, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    MPI_Request request;
    OK(MPI_Ibcast(data, is_last ? 2 : 3, MPI_INT, 0, comm, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    OK(MPI_Bcast_init(data, is_last ? 2 : 3, MPI_INT, 0, comm, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    OK(MPI_Request_free(&request));
}

static void roots_ops_types(void)
{
    int data[ITEMS] = {0}, result[ITEMS], is_last = check_rank == check_size - 1;
    FAILS(MPI_Bcast(data, 1, MPI_INT, is_last ? 1 : 0, comm), MPI_ERR_ROOT);
    FAILS(MPI_Allreduce(data, result, 1, MPI_INT, is_last ? MPI_MAX : MPI_SUM, comm), MPI_ERR_OP);
    FAILS(MPI_Bcast(data, 1, is_last ? MPI_FLOAT : MPI_INT, 0, comm), MPI_ERR_TYPE);
    /* The calls themselves. */
    if (is_last)
        FAILS(MPI_Barrier(comm), MPI_ERR_OTHER);
    else
        FAILS(MPI_Bcast(data, 1, MPI_INT, 0, comm), MPI_ERR_OTHER);
}

/* One that others expect more of: only the root, or the receiver, knows. */
static void expectations(void)
{
    int data[ITEMS * 64] = {0}, result[ITEMS * 64], counts[64], displs[64], sends[64];
    int is_last = check_rank == check_size - 1;
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = sends[rank] = 2;
        displs[rank] = 2 * rank;
    }
    int own = is_last ? 1 : 2;
    FAILS(MPI_Gatherv(data, own, MPI_INT, result, counts, displs, MPI_INT, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Scatterv(data, counts, displs, MPI_INT, result, own, MPI_INT, 0, comm), MPI_ERR_COUNT);
    sends[0] = own;
    FAILS(MPI_Alltoallv(data, sends, displs, MPI_INT, result, counts, displs, MPI_INT, comm), MPI_ERR_COUNT);
    /* A call that is wrong at one rank ends at all. */
    int *into = is_last ? data : result;
    FAILS(MPI_Allreduce(data, into, 1, MPI_INT, MPI_SUM, comm), is_last ? MPI_ERR_BUFFER : MPI_ERR_OTHER);
}

/* Other types with the same sequence of basic types; MPI_IN_PLACE at the root; equal blocks. */
static void agreement(void)
{
    MPI_Datatype pair, rows;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_vector(3, 2, 4, MPI_INT, &rows));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Type_commit(&rows));
    int data[ITEMS], all[ITEMS * 64], sum[2] = {check_rank, 1}, total[2];
    for (int i = 0; i < ITEMS; i++)
        data[i] = check_rank == 0 ? i : -1;
    if (check_rank == 0)
        OK(MPI_Bcast(data, 6, MPI_INT, 0, comm));
    else if (check_rank == 1)
        OK(MPI_Bcast(data, 3, pair, 0, comm));
    else
        OK(MPI_Bcast(data, 1, rows, 0, comm));
    CHECK(data[0] == 0 && data[1] == 1 && data[check_rank < 2 ? 5 : 9] == 5, "wrong data");
    OK(MPI_Bcast(data, check_rank == 0 ? 2 : 1, check_rank == 0 ? MPI_INT : MPI_2INT, 0, comm));
    OK(MPI_Allreduce(sum, total, 2, MPI_INT, MPI_SUM, comm));
    CHECK(total[0] == check_size * (check_size - 1) / 2 && total[1] == check_size, "wrong data");
    void *from = check_rank == 0 ? MPI_IN_PLACE : sum, *to = check_rank == 0 ? sum : NULL;
    OK(MPI_Reduce(from, to, 2, MPI_INT, MPI_SUM, 0, comm));
    CHECK(check_rank != 0 || sum[0] == total[0], "wrong data");
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, memset(all, 0, sizeof all), 2, MPI_INT, comm));
    all[check_rank] = 100 + check_rank;
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm));
    for (int rank = 0; rank < check_size; rank++)
        CHECK(all[rank] == 100 + rank, "wrong data");
    int counts[64], displs[64];
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = 1 + rank % 2;
        displs[rank] = 2 * rank;
    }
    int own[2] = {check_rank, check_rank};
    OK(MPI_Allgatherv(own, counts[check_rank], MPI_INT, all, counts, displs, MPI_INT, comm));
    for (int rank = 0; rank < check_size; rank++)
        CHECK(all[2 * rank] == rank && all[2 * rank + rank % 2] == rank, "wrong data");
    OK(MPI_Barrier(comm));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&rows));
}

int main(int argc, char **argv)
{
    setenv("AYATORI_CHECK", "1", 1);
    check_start(&argc, &argv);
    CHECK_NEED(2);
#ifndef MPIX_AYATORI
    if (check_rank == 0) printf("Skipped: check mode is Ayatori's\n");
    MPI_Finalize();
    return 0;
#endif
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int round = 0; round < 3; round++) {
        agreement();
        lengths();
        roots_ops_types();
        expectations();
    }
    agreement();
    OK(MPI_Comm_free(&comm));
    return check_end();
}
