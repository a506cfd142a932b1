/* MPI_ANY_SOURCE and MPI_ANY_TAG; messages of one sender do not overtake; communicators do not mix. */
#include "check.h"

#define MESSAGES 200

/* Every other rank sends MESSAGES numbered messages of mixed lengths; rank 0 takes them with wildcards. */
static void order(void)
{
    int length_max = 20000;
    char *buffer = check_alloc((size_t)length_max);
    if (check_rank == 0) {
        int *next = check_alloc(sizeof *next * (size_t)check_size);
        for (int i = 0; i < MESSAGES * (check_size - 1); i++) {
            MPI_Status status;
            int count, number;
            OK(MPI_Recv(buffer, length_max, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &count));
            memcpy(&number, buffer, sizeof number);
            CHECK(status.MPI_SOURCE > 0 && status.MPI_SOURCE < check_size, "source %d", status.MPI_SOURCE);
            if (status.MPI_SOURCE < 1 || status.MPI_SOURCE >= check_size) continue;
            CHECK(number == next[status.MPI_SOURCE], "message %d of rank %d came when %d was due", number,
                  status.MPI_SOURCE, next[status.MPI_SOURCE]);
            CHECK(status.MPI_TAG == number % 7, "tag %d of message %d", status.MPI_TAG, number);
            CHECK(count == 4 + number * 97 % 19000, "length %d of message %d", count, number);
            next[status.MPI_SOURCE]++;
        }
        free(next);
    } else {
        for (int i = 0; i < MESSAGES; i++) {
            memcpy(buffer, &i, sizeof i);
            OK(MPI_Send(buffer, 4 + i * 97 % 19000, MPI_BYTE, 0, i % 7, MPI_COMM_WORLD));
        }
    }
    free(buffer);
}

/* A wildcard receive posted first is matched before a specific one posted later. */
static void posted_order(void)
{
    int a = -1, b = -1, c = -1, values[3] = {10, 11, 12};
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    OK(MPI_Irecv(&a, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Irecv(&b, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Irecv(&c, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &requests[2]));
    for (int i = 0; i < 3; i++) OK(MPI_Send(&values[i], 1, MPI_INT, right, 5, MPI_COMM_WORLD));
    OK(MPI_Waitall(3, requests, statuses));
    CHECK(a == 10 && b == 11 && c == 12, "matched %d %d %d, not 10 11 12", a, b, c);
    for (int i = 0; i < 3; i++) CHECK_STATUS(statuses[i], left, 5, sizeof(int));
}

/* A receive for one tag skips unexpected messages of others; they are found later, in their order. */
static void by_tag_backwards(void)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[50];
    int out[50], in;
    for (int i = 0; i < 50; i++) {
        out[i] = 1000 * check_rank + i;
        OK(MPI_Isend(&out[i], 1, MPI_INT, right, 1000 + i, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = 49; i >= 0; i--) {
        in = -1;
        OK(MPI_Recv(&in, 1, MPI_INT, left, 1000 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(in == 1000 * left + i, "tag %d brought %d", 1000 + i, in);
    }
    OK(MPI_Waitall(50, requests, MPI_STATUSES_IGNORE));
}

/* The same source and tag in two communicators: each receive takes its own, wildcards too. */
static void communicators_apart(void)
{
    MPI_Comm twin;
    int right = (check_rank + 1) % check_size, in = 0, world = 1, other = 2;
    MPI_Request requests[2];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    OK(MPI_Isend(&world, 1, MPI_INT, right, 9, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&other, 1, MPI_INT, right, 9, twin, &requests[1]));
    OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, MPI_STATUS_IGNORE));
    CHECK(in == 2, "the twin's receive got %d", in);
    OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(in == 1, "the world's receive got %d", in);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_free(&twin));
    CHECK(twin == MPI_COMM_NULL, "a freed communicator is not MPI_COMM_NULL");
}

/* The largest tag the library says it has. */
static void tag_upper_bound(void)
{
    int *bound = NULL, found = 0, out = 77, in = 0;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found));
    CHECK(found && *bound >= 32767, "MPI_TAG_UB is missing or below 32767");
    if (!found) return;
    MPI_Status status;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, check_rank, *bound, &in, 1, MPI_INT, check_rank, MPI_ANY_TAG, MPI_COMM_WORLD,
                    &status));
    CHECK(in == 77 && status.MPI_TAG == *bound, "value %d, tag %d", in, status.MPI_TAG);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    order();
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* wildcards of one part must not take messages of the next */
    posted_order();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    by_tag_backwards();
    communicators_apart();
    tag_upper_bound();
    return check_end();
}
