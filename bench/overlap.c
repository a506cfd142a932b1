/* What goes on while a rank computes.
 *
 * Delivery: one message while both sides wait in MPI (`deliver_idle`), while the sender computes 50 ms after MPI_Isend
 * (`deliver_sender_busy`: until the receiver has it), and while the receiver computes 50 ms after MPI_Irecv
 * (`deliver_receiver_busy`: until the sender knows that it has arrived).
 *
 * Availability, as in Sandia's SMB (D. Doerfler, R. Brightwell: Measuring MPI Send and Receive Overhead and Application
 * Availability, 2006): post, work, wait. The work grows until a turn takes 1.5 times as long as without work; what the turn
 * then takes longer than the work alone is the overhead, and availability = 1 - overhead / (turn without work), in percent. With the
 * argument `delivery` it is not measured. */
#include "bench.h"

#include <time.h>

#define COMPUTE_S 0.05
#define TURNS 15
#define THRESHOLD 1.5

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static volatile double sink;

static void work(long steps)
{
    double x = 1;
    for (long i = 0; i < steps; i++) x = x * 0.999999 + 1e-9;
    sink = x;
}

static void compute_for(double seconds)
{
    double until = now() + seconds;
    while (now() < until) work(1000);
}

static void sleep_for(double seconds)
{
    struct timespec t = {0, (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

enum busy { NOBODY, SENDER, RECEIVER };

/* Seconds until delivery, on rank 0 at the end; -1 where the data is wrong. Rank 0 sends. */
static double deliver(char *buffer, int bytes, enum busy busy, char mark)
{
    MPI_Request request;
    double took = 0, begin;
    memset(buffer, bench_rank == 0 ? mark : 0, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench_rank == 0) {
        /* The receiver's compute phase has begun, or it waits. */
        sleep_for(0.005);
        begin = now();
        MPI_Issend(buffer, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
        if (busy == SENDER) compute_for(COMPUTE_S);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        took = now() - begin;
        if (busy == SENDER) {
            double at;
            MPI_Recv(&at, 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            took = at - begin; /* one clock: ranks of one machine */
        }
    } else {
        MPI_Irecv(buffer, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
        if (busy == RECEIVER) compute_for(COMPUTE_S);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        double at = now();
        for (int i = 0; i < bytes; i++)
            if (buffer[i] != mark) {
                fprintf(stderr, "byte %d is wrong\n", i);
                MPI_Abort(MPI_COMM_WORLD, 4);
            }
        if (busy == SENDER) MPI_Send(&at, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
    }
    return took;
}

static void delivery(int bytes)
{
    static const char *const names[] = {"deliver_idle", "deliver_sender_busy", "deliver_receiver_busy"};
    char *buffer = bench_buffer((size_t)bytes);
    for (enum busy busy = NOBODY; busy <= RECEIVER; busy++) {
        double samples[TURNS], worst = 0;
        for (int i = 0; i < TURNS; i++) {
            samples[i] = deliver(buffer, bytes, busy, (char)(i + 1));
            if (i > 0 && samples[i] > worst) worst = samples[i];
        }
        char name[64];
        snprintf(name, sizeof name, "%s_worst", names[busy]);
        bench_result(names[busy], (size_t)bytes, bench_median(samples + 1, TURNS - 1) * 1e6, "us");
        bench_result(name, (size_t)bytes, worst * 1e6, "us");
    }
    free(buffer);
}

struct turn { char *buffer; int bytes, receives; long steps; };

/* Seconds of post, work, wait at rank 0: the median. */
static double turn_time(const struct turn *t)
{
    double samples[TURNS];
    for (int i = 0; i < TURNS; i++) {
        MPI_Request request;
        int sends = bench_rank == (t->receives ? 1 : 0);
        if (bench_rank == 1 && !sends)
            MPI_Irecv(t->buffer, t->bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now();
        if (sends)
            MPI_Isend(t->buffer, t->bytes, MPI_CHAR, 1 - bench_rank, 3, MPI_COMM_WORLD, &request);
        else if (bench_rank == 0)
            MPI_Irecv(t->buffer, t->bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD, &request);
        if (bench_rank == 0) work(t->steps);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        samples[i] = now() - begin;
    }
    return bench_median(samples, TURNS);
}

static double work_time(long steps)
{
    double samples[TURNS];
    for (int i = 0; i < TURNS; i++) {
        double begin = now();
        work(steps);
        samples[i] = now() - begin;
    }
    return bench_median(samples, TURNS);
}

static void availability(int bytes, int receives)
{
    struct turn t = {bench_buffer((size_t)bytes), bytes, receives, 0};
    turn_time(&t);
    double base = turn_time(&t), turn = base;
    for (t.steps = 1000; bench_rank == 1 || turn < THRESHOLD * base; t.steps += t.steps / 2) {
        int go = 1;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!go) break;
        turn = turn_time(&t);
    }
    if (bench_rank == 0) {
        int go = 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        t.steps = t.steps / 3 * 2; /* the loop has gone one further */
        double alone = work_time(t.steps);
        double overhead = turn - alone;
        bench_result(receives ? "availability_recv" : "availability_send", (size_t)bytes,
                     100 * (1 - overhead / base), "%");
    }
    free(t.buffer);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 8 << 10, 64 << 10, 1 << 20, 4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    delivery(4 << 20);
    int is_all = argc < 2 || strcmp(argv[1], "delivery") != 0;
    for (size_t i = 0; is_all && i < sizeof sizes / sizeof *sizes; i++)
        for (int receives = 0; receives < 2; receives++) availability(sizes[i], receives);
    MPI_Finalize();
    return 0;
}
