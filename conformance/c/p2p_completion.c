/* Wait and Test in their any, some and all forms, with null requests between. */
#include "check.h"

#define COUNT 12

static int left, right, in[COUNT];
static MPI_Request receives[COUNT];

/* Posts COUNT receives (each third handle null) and lets the neighbour send them all, in reverse. */
static void start(int tag)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < COUNT; i++) {
        in[i] = -1;
        receives[i] = MPI_REQUEST_NULL;
        if (i % 3) OK(MPI_Irecv(&in[i], 1, MPI_INT, left, tag + i, MPI_COMM_WORLD, &receives[i]));
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        int out = 10 * check_rank + i;
        if (i % 3) OK(MPI_Send(&out, 1, MPI_INT, right, tag + i, MPI_COMM_WORLD));
    }
}

static void verify(int i, const MPI_Status *status, int tag)
{
    CHECK(i >= 0 && i < COUNT && i % 3, "completed index %d", i);
    if (i < 0 || i >= COUNT) return;
    CHECK_STATUS(*status, left, tag + i, sizeof(int));
    CHECK(in[i] == 10 * left + i, "receive %d brought %d", i, in[i]);
    CHECK(receives[i] == MPI_REQUEST_NULL, "request %d survives its completion", i);
}

static int expected(void)
{
    int count = 0;
    for (int i = 0; i < COUNT; i++) count += i % 3 != 0;
    return count;
}

static void any(int tag, int test)
{
    MPI_Status status;
    int index, flag = 1;
    start(tag);
    for (int done = 0; done < expected();) {
        if (test) OK(MPI_Testany(COUNT, receives, &index, &flag, &status));
        else OK(MPI_Waitany(COUNT, receives, &index, &status));
        if (!flag) continue;
        verify(index, &status, tag);
        done++;
    }
    flag = 0;
    OK(MPI_Testany(COUNT, receives, &index, &flag, &status));
    CHECK(flag && index == MPI_UNDEFINED, "Testany of null requests: flag %d, index %d", flag, index);
    OK(MPI_Waitany(COUNT, receives, &index, MPI_STATUS_IGNORE));
    CHECK(index == MPI_UNDEFINED, "Waitany of null requests: index %d", index);
}

static void some(int tag, int test)
{
    MPI_Status statuses[COUNT];
    int indices[COUNT], count;
    start(tag);
    for (int done = 0; done < expected();) {
        if (test) OK(MPI_Testsome(COUNT, receives, &count, indices, statuses));
        else OK(MPI_Waitsome(COUNT, receives, &count, indices, statuses));
        CHECK(count != MPI_UNDEFINED && (test || count > 0), "count %d", count);
        if (count == MPI_UNDEFINED) return;
        for (int i = 0; i < count; i++) verify(indices[i], &statuses[i], tag);
        done += count;
    }
    OK(MPI_Waitsome(COUNT, receives, &count, indices, MPI_STATUSES_IGNORE));
    CHECK(count == MPI_UNDEFINED, "Waitsome of null requests: %d", count);
    OK(MPI_Testsome(COUNT, receives, &count, indices, MPI_STATUSES_IGNORE));
    CHECK(count == MPI_UNDEFINED, "Testsome of null requests: %d", count);
}

static void all(int tag, int test)
{
    MPI_Status statuses[COUNT];
    int flag = !test;
    start(tag);
    if (!test) OK(MPI_Waitall(COUNT, receives, statuses));
    while (!flag) OK(MPI_Testall(COUNT, receives, &flag, statuses));
    for (int i = 0; i < COUNT; i++) {
        if (i % 3) verify(i, &statuses[i], tag);
        else CHECK_STATUS(statuses[i], MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    }
}

static void one(int tag, int test)
{
    MPI_Status status;
    start(tag);
    for (int i = 0; i < COUNT; i++) {
        int flag = !test;
        if (!test) OK(MPI_Wait(&receives[i], &status));
        while (!flag) OK(MPI_Test(&receives[i], &flag, &status));
        if (i % 3) verify(i, &status, tag);
        else CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    }
}

static void nothing(void)
{
    int index = 0, flag = 0, count = 0;
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag, "Testall of nothing says no");
    OK(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    CHECK(index == MPI_UNDEFINED, "Waitany of nothing gives %d", index);
    OK(MPI_Waitsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE));
    CHECK(count == MPI_UNDEFINED, "Waitsome of nothing gives %d", count);
}

/* A test that says no must leave everything as it was. */
static void not_yet(void)
{
    int value = -1, out = 6, flag = 1, index = 7;
    MPI_Request request;
    OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 699, MPI_COMM_WORLD, &request));
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag && request != MPI_REQUEST_NULL, "Test completed a receive without a message");
    OK(MPI_Testall(1, &request, &flag, MPI_STATUSES_IGNORE));
    CHECK(!flag && request != MPI_REQUEST_NULL, "Testall completed a receive without a message");
    OK(MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag && index == MPI_UNDEFINED, "Testany: flag %d index %d", flag, index);
    OK(MPI_Send(&out, 1, MPI_INT, check_rank, 699, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(value == 6, "got %d", value);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    right = (check_rank + 1) % check_size;
    left = (check_rank + check_size - 1) % check_size;
    for (int test = 0; test < 2; test++) {
        one(600 + 100 * test, test);
        any(620 + 100 * test, test);
        some(640 + 100 * test, test);
        all(660 + 100 * test, test);
    }
    nothing();
    not_yet();
    return check_end();
}
