/* Generalized requests: how often the program's functions are called, and what becomes of the errors that
 * these return (MPI-5.0 13.2). */
#include "check.h"

static int query_code, free_code, queries, frees;

static int query(void *state, MPI_Status *status)
{
    (void)state;
    queries++;
    MPI_Status_set_elements(status, MPI_BYTE, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 7, status->MPI_TAG = 8;
    return query_code;
}

static int release(void *state)
{
    (void)state;
    frees++;
    return free_code;
}

static int cancel(void *state, int is_complete)
{
    (void)state, (void)is_complete;
    return MPI_SUCCESS;
}

/* A complete one, and a receive that is complete, too. */
static void start(int of_query, int of_free, MPI_Request requests[2], int *in)
{
    int out = 5, flag = 0;
    query_code = of_query, free_code = of_free, queries = frees = 0;
    OK(MPI_Grequest_start(query, release, cancel, NULL, &requests[0]));
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Irecv(in, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Send(&out, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    while (!flag) OK(MPI_Request_get_status(requests[1], &flag, MPI_STATUS_IGNORE));
}

static void is_over(const char *call, const MPI_Request requests[2], int in)
{
    CHECK(queries == 1 && frees == 1, "%s: %d queries, %d frees", call, queries, frees);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "%s leaves a handle", call);
    CHECK(in == 5, "%s brought %d", call, in);
}

static void check_errors_of(const char *call, const MPI_Status statuses[2])
{
    int first = statuses[0].MPI_ERROR, second = statuses[1].MPI_ERROR;
    CHECK(first == MPI_ERR_OTHER && second == MPI_SUCCESS, "%s: errors %d, %d", call, first, second);
}

static void failing(int of_query, int of_free)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int in, count, indices[2], flag;
    start(of_query, of_free, requests, &in);
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    is_over("Waitall", requests, in);
    check_errors_of("Waitall", statuses);
    start(of_query, of_free, requests, &in);
    FAILS(MPI_Testall(2, requests, &flag, statuses), MPI_ERR_IN_STATUS);
    is_over("Testall", requests, in);
    start(of_query, of_free, requests, &in);
    FAILS(MPI_Waitsome(2, requests, &count, indices, statuses), MPI_ERR_IN_STATUS);
    CHECK(count == 2, "Waitsome ends %d", count);
    check_errors_of("Waitsome", statuses);
    is_over("Waitsome", requests, in);
    start(of_query, of_free, requests, &in);
    FAILS(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_OTHER);
    OK(MPI_Wait(&requests[1], &statuses[1]));
    is_over("Wait", requests, in);
}

/* The program is asked for the status by the call that ends the request, and by MPI_Request_get_status. */
static void asked(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int in, flag = 0, out = 5;
    query_code = free_code = MPI_SUCCESS, queries = frees = 0;
    OK(MPI_Grequest_start(query, release, cancel, NULL, &requests[0]));
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Irecv(&in, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Testall(2, requests, &flag, statuses));
    CHECK(!flag && queries == 0, "Testall that says no: flag %d, %d queries", flag, queries);
    OK(MPI_Send(&out, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    while (!flag) OK(MPI_Testall(2, requests, &flag, statuses));
    is_over("Testall", requests, in);
    CHECK_STATUS(statuses[0], 7, 8, 3);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    failing(MPI_ERR_OTHER, MPI_SUCCESS);
    failing(MPI_SUCCESS, MPI_ERR_OTHER);
    asked();
    return check_end();
}
