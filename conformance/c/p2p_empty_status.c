/* An empty status says success (MPI-5.0, 3.7.3), also in its error field; other statuses of calls for one request keep
 * the field. */
#include "check.h"

static MPI_Status status;

static void spoil(void)
{
    memset(&status, 0x55, sizeof status);
    status.MPI_ERROR = MPI_ERR_OTHER;
}

static void empty(const char *call)
{
    int count = -1, cancelled = 1;
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(status.MPI_ERROR == MPI_SUCCESS, "%s: the error is %d", call, status.MPI_ERROR);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && count == 0 && !cancelled,
          "%s: source %d, tag %d, count %d, cancelled %d", call, status.MPI_SOURCE, status.MPI_TAG, count, cancelled);
    spoil();
}

/* Every call for one or any of requests, with one that is null or inactive. */
static void all_calls(MPI_Request *request)
{
    int flag = 0, index = 0;
    spoil();
    OK(MPI_Wait(request, &status));
    empty("MPI_Wait");
    OK(MPI_Test(request, &flag, &status));
    CHECK(flag, "MPI_Test");
    empty("MPI_Test");
    OK(MPI_Waitany(1, request, &index, &status));
    CHECK(index == MPI_UNDEFINED, "MPI_Waitany: %d", index);
    empty("MPI_Waitany");
    OK(MPI_Testany(1, request, &index, &flag, &status));
    CHECK(flag && index == MPI_UNDEFINED, "MPI_Testany: %d, %d", flag, index);
    empty("MPI_Testany");
    OK(MPI_Waitall(1, request, &status));
    empty("MPI_Waitall");
    OK(MPI_Testall(1, request, &flag, &status));
    CHECK(flag, "MPI_Testall");
    empty("MPI_Testall");
    OK(MPI_Request_get_status(*request, &flag, &status));
    CHECK(flag, "MPI_Request_get_status");
    empty("MPI_Request_get_status");
}

int main(int argc, char **argv)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int value = 0;
    check_start(&argc, &argv);
    all_calls(&request);
    OK(MPI_Recv_init(&value, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, &request));
    all_calls(&request);
    OK(MPI_Start(&request));
    OK(MPI_Send(&check_rank, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    CHECK(status.MPI_ERROR == MPI_ERR_OTHER, "the error of a receive became %d", status.MPI_ERROR);
    all_calls(&request);
    OK(MPI_Request_free(&request));
    return check_end();
}
