/* Files and messages at the same time: requests of both kinds in one array, and threads that use one file together. */
#include "file.h"
#include <pthread.h>

enum { THREADS = 4, PARTS = 12, PART = 700 };

/* A request of a file ends beside one of a message that comes late, and the other way round. */
static void mixed(const char *name)
{
    MPI_File file;
    int *memory = check_alloc(PARTS * PART * sizeof(int)), token = check_rank, other = -1, ended[2] = {0, 0};
    int next = (check_rank + 1) % check_size, last = (check_rank + check_size - 1) % check_size;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    for (int round = 0; round < 20; round++) {
        MPI_Request requests[2];
        int at = -1;
        OK(MPI_Irecv(&other, 1, MPI_INT, last, round, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_File_iwrite_at(file, (MPI_Offset)check_rank * PART * sizeof(int), memory, PART, MPI_INT, &requests[1]));
        if (round % 2) {
            /* Nothing is sent before the file's request has ended. */
            OK(MPI_Waitany(2, requests, &at, MPI_STATUS_IGNORE));
            CHECK(at == 1, "request %d ended first", at);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        OK(MPI_Send(&token, 1, MPI_INT, next, round, MPI_COMM_WORLD));
        MPI_Barrier(MPI_COMM_WORLD);
        int outcount = 0, indices[2];
        while (outcount != MPI_UNDEFINED) {
            OK(MPI_Waitsome(2, requests, &outcount, indices, MPI_STATUSES_IGNORE));
            for (int i = 0; i < outcount; i++) ended[indices[i]]++;
        }
        CHECK(other == last, "received %d", other);
    }
    CHECK(ended[0] == 20 && ended[1] == 10, "%d and %d requests ended", ended[0], ended[1]);
    /* Given up: it goes on all the same. */
    MPI_Request request;
    OK(MPI_File_iwrite_at(file, 0, memory, 0, MPI_INT, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_File_iwrite_at(file, 0, memory, 1, MPI_INT, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    free(memory);
}

static MPI_File shared_file;
static int wrong[THREADS];

static int value(int rank, int thread, int i) { return (rank * THREADS + thread) * 100000 + i; }

/* Parts of the file in turns: the threads of all ranks write between each other's pieces. */
static void *work(void *argument)
{
    int thread = *(int *)argument, memory[PART], found[PART];
    for (int part = 0; part < PARTS; part++) {
        MPI_Offset offset = ((MPI_Offset)part * THREADS + thread) * PART;
        MPI_Request request;
        for (int i = 0; i < PART; i++) memory[i] = value(check_rank, thread, part * PART + i);
        memset(found, 0, sizeof found);
        if (part % 2) {
            wrong[thread] += MPI_File_iwrite_at(shared_file, offset, memory, PART, MPI_INT, &request) != MPI_SUCCESS;
            wrong[thread] += MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS;
            wrong[thread] += MPI_File_iread_at(shared_file, offset, found, PART, MPI_INT, &request) != MPI_SUCCESS;
            wrong[thread] += MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        } else {
            wrong[thread] += MPI_File_write_at(shared_file, offset, memory, PART, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
            wrong[thread] += MPI_File_read_at(shared_file, offset, found, PART, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        }
        for (int i = 0; i < PART; i++) wrong[thread] += found[i] != memory[i];
        MPI_Offset place;
        wrong[thread] += MPI_File_write_shared(shared_file, memory, 0, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        wrong[thread] += MPI_File_get_position_shared(shared_file, &place) != MPI_SUCCESS || place != 0;
    }
    return NULL;
}

static void threads(const char *name)
{
    MPI_Datatype slot;
    pthread_t all[THREADS];
    int numbers[THREADS], bad = 0;
    long ints = (long)PARTS * THREADS * PART * check_size;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &shared_file));
    OK(MPI_File_set_size(shared_file, 0));
    MPI_Type_create_resized(MPI_INT, 0, check_size * sizeof(int), &slot);
    MPI_Type_commit(&slot);
    OK(MPI_File_set_view(shared_file, check_rank * sizeof(int), MPI_INT, slot, "native", MPI_INFO_NULL));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&all[i], NULL, work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK(!wrong[i], "thread %d found %d errors", i, wrong[i]);
    OK(MPI_File_sync(shared_file));
    int *found = check_alloc(ints * sizeof(int));
    CHECK(file_bytes(name, found, ints * sizeof(int)) == ints * 4, "the file has another length");
    for (long i = 0; i < ints; i++) {
        long index = i / check_size, part = index / PART / THREADS;
        bad += found[i] != value((int)(i % check_size), (int)(index / PART % THREADS), (int)(part * PART + index % PART));
    }
    CHECK(!bad, "%d ints in the file are wrong", bad);
    free(found);
    MPI_Type_free(&slot);
    OK(MPI_File_close(&shared_file));
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    const char *name = file_name("threads");
    mixed(name);
    if (level == MPI_THREAD_MULTIPLE) threads(name);
    file_remove(name);
    return check_end();
}
