/* Partitioned communication: other numbers of partitions on the two sides, types with gaps, ranges and lists, a ring with
 * several requests of one tag, to oneself, several rounds, threads that mark partitions ready, and wrong arguments. */
#include "check.h"
#include <pthread.h>

#define ROUNDS 3
#define TAG 5

/* Integer `i` of a message. */
static int value(int from, int request, int round, int i) { return from * 10000019 + request * 70001 + round * 577 + i; }

/* `n` integers in a row, or with `gap` others between them. */
static void fill(int *at, int n, int gap, int from, int request, int round)
{
    for (int i = 0; i < n * (gap + 1); i++) at[i] = i % (gap + 1) ? -5 : value(from, request, round, i / (gap + 1));
}

static int wrong_at(const int *at, int low, int high, int gap, int from, int request, int round)
{
    for (int i = low * (gap + 1); i < high * (gap + 1); i++)
        if (at[i] != (i % (gap + 1) ? -7 : value(from, request, round, i / (gap + 1)))) return i;
    return -1;
}

struct end { int parts, each, gap; };
static const struct { struct end send, recv; } shapes[] = {
    {{1, 24, 0}, {24, 1, 0}}, {{6, 4, 0}, {4, 6, 0}}, {{5, 7, 1}, {7, 5, 0}}, {{7, 5, 0}, {5, 7, 2}},
    {{8, 9, 1}, {8, 9, 1}}, {{3, 20000, 0}, {4, 15000, 0}}, {{4, 15000, 1}, {3, 20000, 1}}, {{2, 0, 0}, {3, 0, 0}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static MPI_Datatype spaced[3];

static void ready(int parts, int how, int round, MPI_Request request)
{
    int order[64];
    for (int i = 0; i < parts; i++) order[i] = (i * 7 + round) % parts;
    if (parts % 7 == 0) for (int i = 0; i < parts; i++) order[i] = parts - 1 - i;
    if (how == 0) OK(MPI_Pready_range(0, parts - 1, request));
    else if (how == 1) OK(MPI_Pready_list(parts, order, request));
    else for (int i = 0; i < parts; i++) OK(MPI_Pready(order[i], request));
}

/* Around a ring, all shapes at once and with one tag: they match in the order in which they are made. */
static void ring(int distance)
{
    int to = (check_rank + distance) % check_size, from = (check_rank - distance + check_size) % check_size;
    int *out[SHAPES], *in[SHAPES];
    MPI_Request requests[2 * SHAPES];
    for (int s = 0; s < SHAPES; s++) {
        struct end send = shapes[s].send, recv = shapes[s].recv;
        out[s] = check_alloc((size_t)(send.parts * send.each * (send.gap + 1) + 1) * sizeof(int));
        in[s] = check_alloc((size_t)(recv.parts * recv.each * (recv.gap + 1) + 1) * sizeof(int));
        if (check_rank % 2) OK(MPI_Psend_init(out[s], send.parts, send.each, spaced[send.gap], to, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[s]));
        OK(MPI_Precv_init_c(in[s], recv.parts, recv.each, spaced[recv.gap], from, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[SHAPES + s]));
        if (check_rank % 2 == 0) OK(MPI_Psend_init_c(out[s], send.parts, send.each, spaced[send.gap], to, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[s]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 0; s < SHAPES; s++) {
            struct end send = shapes[s].send, recv = shapes[s].recv;
            fill(out[s], send.parts * send.each, send.gap, check_rank, s, round);
            for (int i = 0; i < recv.parts * recv.each * (recv.gap + 1); i++) in[s][i] = -7;
        }
        if (round % 2) OK(MPI_Startall(2 * SHAPES, requests));
        else for (int i = 2 * SHAPES - 1; i >= 0; i--) OK(MPI_Start(&requests[i]));
        for (int s = 0; s < SHAPES; s++) ready(shapes[s].send.parts, (s + round) % 3, round, requests[s]);
        for (int s = 0; s < SHAPES; s++) {
            struct end recv = shapes[s].recv;
            for (int part = recv.parts - 1; part >= 0; part--) {
                int flag = 0, at;
                while (!flag) OK(MPI_Parrived(requests[SHAPES + s], part, &flag));
                at = wrong_at(in[s], part * recv.each, (part + 1) * recv.each, recv.gap, from, s, round);
                CHECK(at < 0, "shape %d, round %d, partition %d: integer %d is %d", s, round, part, at, in[s][at]);
            }
        }
        MPI_Status statuses[2 * SHAPES];
        OK(MPI_Waitall(2 * SHAPES, requests, statuses));
        for (int s = 0; s < SHAPES; s++)
            CHECK_STATUS(statuses[SHAPES + s], from, TAG, shapes[s].recv.parts * shapes[s].recv.each * 4);
    }
    for (int i = 0; i < 2 * SHAPES; i++) OK(MPI_Request_free(&requests[i]));
    for (int s = 0; s < SHAPES; s++) free(out[s]), free(in[s]);
}

/* The receiver starts late, and its data has been sent before; ordinary messages of the tag are none of its parts. */
static void beside_messages(void)
{
    int to = (check_rank + 1) % check_size, from = (check_rank - 1 + check_size) % check_size;
    int out[8] = {0}, in[8] = {0}, word = check_rank, other = -1, flag = 1;
    MPI_Request send, recv, plain;
    OK(MPI_Psend_init(out, 4, 2, MPI_INT, to, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    for (int i = 0; i < 8; i++) out[i] = check_rank + i, in[i] = -1;
    OK(MPI_Start(&send));
    OK(MPI_Pready_range(1, 3, send));
    OK(MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &plain));
    OK(MPI_Send(&word, 1, MPI_INT, to, TAG, MPI_COMM_WORLD));
    OK(MPI_Wait(&plain, MPI_STATUS_IGNORE));
    CHECK(other == from, "an ordinary receive got %d", other);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a probe finds a partition");
    OK(MPI_Precv_init(in, 1, 8, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
    OK(MPI_Parrived(recv, 0, &flag));
    CHECK(flag, "an inactive receive waits");
    OK(MPI_Start(&recv));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Parrived(recv, 0, &flag));
    CHECK(!flag, "all is there before all is sent");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Pready(0, send));
    OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    for (int i = 0; i < 8; i++) CHECK(in[i] == from + i, "integer %d is %d", i, in[i]);
    OK(MPI_Request_free(&recv));
    OK(MPI_Request_free(&send));
}

enum { THREADS = 4, THREAD_PARTS = 64, PART_INTS = 300 };
static MPI_Request thread_request;
static int *thread_memory, thread_round;

static void *fill_and_mark(void *which)
{
    for (int part = *(int *)which; part < THREAD_PARTS; part += THREADS) {
        for (int i = 0; i < PART_INTS; i++)
            thread_memory[part * PART_INTS + i] = value(check_rank, 99, thread_round, part * PART_INTS + i);
        OK(MPI_Pready(part, thread_request));
    }
    return NULL;
}

/* Threads mark partitions while another waits for the request. */
static void threads(void)
{
    int to = (check_rank + 1) % check_size, from = (check_rank - 1 + check_size) % check_size;
    int *in = check_alloc(THREAD_PARTS * PART_INTS * sizeof(int)), names[THREADS];
    MPI_Request recv;
    pthread_t ids[THREADS];
    thread_memory = check_alloc(THREAD_PARTS * PART_INTS * sizeof(int));
    OK(MPI_Psend_init(thread_memory, THREAD_PARTS, PART_INTS, MPI_INT, to, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &thread_request));
    OK(MPI_Precv_init(in, 5, THREAD_PARTS * PART_INTS / 5, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
    for (thread_round = 0; thread_round < ROUNDS; thread_round++) {
        OK(MPI_Start(&recv));
        OK(MPI_Start(&thread_request));
        for (int i = 0; i < THREADS; i++) names[i] = i, pthread_create(&ids[i], NULL, fill_and_mark, &names[i]);
        OK(MPI_Wait(&thread_request, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
        for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
        int at = wrong_at(in, 0, THREAD_PARTS * PART_INTS, 0, from, 99, thread_round);
        CHECK(at < 0, "threads, round %d: integer %d is wrong", thread_round, at);
    }
    OK(MPI_Request_free(&recv));
    OK(MPI_Request_free(&thread_request));
    free(in), free(thread_memory);
}

/* Requests that are given up unused match each other and nothing else. */
static void never_started(void)
{
    int to = (check_rank + 1) % check_size, from = (check_rank - 1 + check_size) % check_size, out = check_rank, in = -1;
    MPI_Request send, recv;
    OK(MPI_Psend_init(&out, 1, 1, MPI_INT, to, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Request_free(&send));
    OK(MPI_Precv_init(&in, 1, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
    OK(MPI_Request_free(&recv));
    CHECK(send == MPI_REQUEST_NULL && recv == MPI_REQUEST_NULL, "a freed request is not null");
    beside_messages();
}

static void to_nobody(void)
{
    int memory[4];
    MPI_Request send, recv;
    MPI_Status status;
    OK(MPI_Psend_init(memory, 2, 2, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(memory, 4, 1, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
    OK(MPI_Start(&send));
    OK(MPI_Start(&recv));
    OK(MPI_Wait(&recv, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Pready_range(0, 1, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&recv));
    OK(MPI_Request_free(&send));
}

static void wrong(void)
{
    int memory[4] = {0}, flag, parts[2] = {0, 9};
    MPI_Request send, recv, plain, none = MPI_REQUEST_NULL;
    MPI_Comm w = MPI_COMM_WORLD;
    FAILS(MPI_Psend_init(memory, -1, 1, MPI_INT, 0, TAG, w, MPI_INFO_NULL, &send), MPI_ERR_ARG);
    FAILS(MPI_Psend_init(memory, 2, -1, MPI_INT, 0, TAG, w, MPI_INFO_NULL, &send), MPI_ERR_COUNT);
    FAILS(MPI_Psend_init(memory, 2, 1, MPI_DATATYPE_NULL, 0, TAG, w, MPI_INFO_NULL, &send), MPI_ERR_TYPE);
    FAILS(MPI_Psend_init(NULL, 2, 1, MPI_INT, 0, TAG, w, MPI_INFO_NULL, &send), MPI_ERR_BUFFER);
    FAILS(MPI_Psend_init(memory, 2, 1, MPI_INT, check_size, TAG, w, MPI_INFO_NULL, &send), MPI_ERR_RANK);
    FAILS(MPI_Psend_init(memory, 2, 1, MPI_INT, 0, -1, w, MPI_INFO_NULL, &send), MPI_ERR_TAG);
    FAILS(MPI_Psend_init(memory, 2, 1, MPI_INT, 0, TAG, MPI_COMM_NULL, MPI_INFO_NULL, &send), MPI_ERR_COMM);
    FAILS(MPI_Precv_init(memory, 2, 1, MPI_INT, MPI_ANY_SOURCE, TAG, w, MPI_INFO_NULL, &recv), MPI_ERR_RANK);
    FAILS(MPI_Precv_init(memory, 2, 1, MPI_INT, 0, MPI_ANY_TAG, w, MPI_INFO_NULL, &recv), MPI_ERR_TAG);
    OK(MPI_Psend_init(memory, 2, 1, MPI_INT, MPI_PROC_NULL, TAG, w, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(memory, 2, 1, MPI_INT, MPI_PROC_NULL, TAG, w, MPI_INFO_NULL, &recv));
    FAILS(MPI_Pready(0, send), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(0, none), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(0, recv), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(recv, 2, &flag), MPI_ERR_ARG);
    FAILS(MPI_Parrived(recv, -1, &flag), MPI_ERR_ARG);
    OK(MPI_Parrived(none, 0, &flag));
    CHECK(flag == 1, "nothing has arrived of a null request");
    OK(MPI_Start(&send));
    FAILS(MPI_Start(&send), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(2, send), MPI_ERR_ARG);
    FAILS(MPI_Pready(-1, send), MPI_ERR_ARG);
    FAILS(MPI_Pready_range(1, 0, send), MPI_ERR_ARG);
    FAILS(MPI_Pready_list(-1, parts, send), MPI_ERR_ARG);
    FAILS(MPI_Pready_list(2, parts, send), MPI_ERR_ARG);
    FAILS(MPI_Pready(0, send), MPI_ERR_ARG);
    OK(MPI_Pready(1, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Send_init(memory, 1, MPI_INT, MPI_PROC_NULL, TAG, w, &plain));
    FAILS(MPI_Pready(0, plain), MPI_ERR_REQUEST);
    OK(MPI_Request_free(&plain));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&recv));
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    spaced[0] = MPI_INT;
    for (int gap = 1; gap < 3; gap++) {
        OK(MPI_Type_create_resized(MPI_INT, 0, 4 * (gap + 1), &spaced[gap]));
        OK(MPI_Type_commit(&spaced[gap]));
    }
    ring(1);
    ring(0);
    beside_messages();
    never_started();
    if (provided == MPI_THREAD_MULTIPLE) threads();
    to_nobody();
    wrong();
    for (int gap = 1; gap < 3; gap++) OK(MPI_Type_free(&spaced[gap]));
    return check_end();
}
