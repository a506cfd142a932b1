/* One-sided communication between two ranks, on memory of the program's (`_create`: MPI_Win_create) and of
 * the library's (`_allocate`: MPI_Win_allocate). Rank 0 works on rank 1's memory.
 *
 *   put, get, fetch_and_op   one operation and MPI_Win_flush under a lock, while the target waits in MPI. µs
 *   put_rate, get_rate       32 operations of 8 bytes and one flush. Mop/s
 *   put_stream, get_stream   32 operations of 1 MiB and one flush. GB/s
 *   fence                    MPI_Win_fence alone, and with a put of 8 bytes (`fence_put`). µs
 *   lock_put                 MPI_Win_lock, a put of 8 bytes, MPI_Win_unlock. µs
 *   *_away                   one operation and its flush, while the target computes for 20 ms. µs */
#include "bench.h"

#include <stdint.h>
#include <time.h>

#define LONG_BYTES (1 << 20)
#define BATCH 32
#define COMPUTE_S 0.02
#define TURNS 15

enum kind { PUT, GET, FETCH };

struct work {
    MPI_Win win;
    char *mine;
    enum kind kind;
    int bytes, batch;
};

static void operation(struct work *w)
{
    static int64_t one = 1;
    if (w->kind == PUT) MPI_Put(w->mine, w->bytes, MPI_CHAR, 1, 0, w->bytes, MPI_CHAR, w->win);
    else if (w->kind == GET) MPI_Get(w->mine, w->bytes, MPI_CHAR, 1, 0, w->bytes, MPI_CHAR, w->win);
    else MPI_Fetch_and_op(&one, w->mine, MPI_INT64_T, 1, 0, MPI_SUM, w->win);
}

/* Rank 1 goes on to the next collective call at once, and waits there. */
static void passive(void *context, int repetitions)
{
    struct work *w = context;
    if (bench_rank != 0) return;
    for (int i = 0; i < repetitions; i++) {
        for (int j = 0; j < w->batch; j++) operation(w);
        MPI_Win_flush(1, w->win);
    }
}

static void locks(void *context, int repetitions)
{
    struct work *w = context;
    if (bench_rank != 0) return;
    for (int i = 0; i < repetitions; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w->win);
        operation(w);
        MPI_Win_unlock(1, w->win);
    }
}

static void fences(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        if (w->batch && bench_rank == 0) operation(w);
        MPI_Win_fence(0, w->win);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_for(double seconds)
{
    struct timespec t = {0, (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

/* Seconds of an operation on a target that computes. */
static double away(struct work *w)
{
    double samples[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (bench_rank == 0) {
            sleep_for(COMPUTE_S / 4);
            double begin = now();
            operation(w);
            MPI_Win_flush(1, w->win);
            samples[turn] = now() - begin;
        } else {
            volatile double x = 1;
            for (double until = now() + COMPUTE_S; now() < until;)
                for (int i = 0; i < 1000; i++) x = x * 0.999999 + 1e-9;
        }
    }
    return bench_rank == 0 ? bench_median(samples, TURNS) : 0;
}

static void result(const char *what, const char *window, size_t bytes, double value, const char *unit)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", what, window);
    bench_result(name, bytes, value, unit);
}

/* What a put has brought lies in the target's memory; a fetch gives what an earlier one left. */
static void check(struct work *w, const char *window, const char *memory)
{
    int wrong = 0;
    int64_t before = 0, after = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w->win);
    if (bench_rank == 0) {
        memset(w->mine, 77, LONG_BYTES);
        w->kind = PUT, w->bytes = LONG_BYTES;
        operation(w);
        MPI_Win_flush(1, w->win);
    }
    MPI_Win_unlock(1, w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, bench_rank, 0, w->win);
    if (bench_rank == 1) wrong = memory[0] != 77 || memory[LONG_BYTES - 1] != 77;
    MPI_Win_unlock(bench_rank, w->win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench_rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, w->win);
        w->kind = FETCH;
        operation(w);
        MPI_Win_flush(1, w->win);
        memcpy(&before, w->mine, sizeof before);
        operation(w);
        MPI_Win_unlock(1, w->win);
        memcpy(&after, w->mine, sizeof after);
        wrong = after != before + 1;
    }
    if (wrong) {
        fprintf(stderr, "rank %d: wrong data in the window made by MPI_Win_%s\n", bench_rank, window);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
}

static void measure(const char *window, MPI_Win win, const char *memory, char *mine)
{
    struct work w = {win, mine, PUT, 8, 1};
    static const char *const names[] = {"put", "get", "fetch_and_op"};
    static const char *const rates[] = {"put_rate", "get_rate"};
    static const char *const streams[] = {"put_stream", "get_stream"};
    static const char *const aways[] = {"put_away", "get_away", "fetch_and_op_away"};
    MPI_Win_lock_all(0, win);
    for (w.kind = PUT; w.kind <= FETCH; w.kind++)
        for (int is_long = 0; is_long <= (w.kind != FETCH); is_long++) {
            w.bytes = is_long ? LONG_BYTES : 8;
            result(names[w.kind], window, (size_t)w.bytes, bench_measure(passive, &w) * 1e6, "us");
        }
    w.batch = BATCH;
    for (w.kind = PUT; w.kind <= GET; w.kind++) {
        w.bytes = 8;
        result(rates[w.kind], window, 8, BATCH / bench_measure(passive, &w) * 1e-6, "Mop/s");
        w.bytes = LONG_BYTES;
        double bytes = (double)BATCH * LONG_BYTES;
        result(streams[w.kind], window, LONG_BYTES, bytes / bench_measure(passive, &w) * 1e-9, "GB/s");
    }
    w.bytes = 8;
    for (w.kind = PUT; w.kind <= FETCH; w.kind++) result(aways[w.kind], window, 8, away(&w) * 1e6, "us");
    MPI_Win_unlock_all(win);
    w.kind = PUT, w.batch = 1;
    result("lock_put", window, 8, bench_measure(locks, &w) * 1e6, "us");
    MPI_Win_fence(0, win);
    result("fence_put", window, 8, bench_measure(fences, &w) * 1e6, "us");
    w.batch = 0;
    result("fence", window, 0, bench_measure(fences, &w) * 1e6, "us");
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    check(&w, window, memory);
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    char *mine = bench_buffer(LONG_BYTES), *memory = bench_buffer(LONG_BYTES);
    MPI_Win win;
    MPI_Win_create(memory, LONG_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    measure("create", win, memory, mine);
    MPI_Win_free(&win);
    free(memory);
    MPI_Win_allocate(LONG_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 1, LONG_BYTES);
    measure("allocate", win, memory, mine);
    MPI_Win_free(&win);
    free(mine);
    MPI_Finalize();
    return 0;
}
