/* What the kernel takes to copy from another process: one call, microseconds.
 *
 *   kernel_copy            from the same memory into the same memory, again and again
 *   kernel_copy_uncached   from and into memory that is in no cache
 *   kernel_copy_in_turn    so many bytes in calls of 4 MiB at most, by one rank and then by the other
 *   kernel_copy_at_once    the same by both at the same time
 *   kernel_copy_fresh      the same by one rank, of what the other has just written
 *   kernel_copy_round      round so many bytes in calls of 4 MiB, by one rank
 *
 * Prints nothing where the kernel refuses. */
#define _GNU_SOURCE
#include "bench.h"

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROUND_MIN ((size_t)16 << 20)
#define CALL_MAX ((size_t)4 << 20)
#define TURNS_MAX 2000

struct copy { char *mine; uint64_t theirs; pid_t pid; size_t bytes, step, span, at; int is_refused; };

static void copy(void *context, int repetitions)
{
    struct copy *c = context;
    if (bench_rank != 1) return;
    for (int i = 0; i < repetitions; i++) {
        struct iovec to = {c->mine + c->at, c->bytes};
        struct iovec from = {(void *)(uintptr_t)(c->theirs + c->at), c->bytes};
        if (process_vm_readv(c->pid, &to, 1, &from, 1, 0) != (ssize_t)c->bytes) c->is_refused = 1;
        c->at += c->step; /* goes on in the next call: what that begins with is in no cache, either */
        if (c->at + c->bytes > c->span) c->at = 0;
    }
}

/* All of the span. */
static void copy_all(struct copy *c)
{
    for (size_t at = 0; at < c->span; at += c->bytes) {
        struct iovec to = {c->mine + at, c->bytes};
        struct iovec from = {(void *)(uintptr_t)(c->theirs + at), c->bytes};
        if (process_vm_readv(c->pid, &to, 1, &from, 1, 0) != (ssize_t)c->bytes) c->is_refused = 1;
    }
}

/* By one rank and then by the other. */
static void in_turn(void *context, int repetitions)
{
    for (int i = 0; i < 2 * repetitions; i++) {
        if (i % 2 == bench_rank) copy_all(context);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* By both ranks. */
static void at_once(void *context, int repetitions)
{
    for (int i = 0; i < repetitions; i++) {
        copy_all(context);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Seconds: the median of what one such copy takes after the other rank has written what is copied. */
static double fresh(struct copy *c, char *written)
{
    static double copies[TURNS_MAX];
    int turns = 0, goes_on = 1;
    bench_near_probe();
    double end = MPI_Wtime() + bench_budget_s();
    while (turns < TURNS_MAX && goes_on) {
        if (bench_rank == 0) memset(written, turns, c->span);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        if (bench_rank == 1) copy_all(c);
        copies[turns++] = MPI_Wtime() - begin;
        goes_on = MPI_Wtime() < end;
        MPI_Bcast(&goes_on, 1, MPI_INT, 1, MPI_COMM_WORLD);
    }
    double seconds = bench_median(copies, turns);
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    bench_near_probe();
    return seconds;
}

/* What `bytes` take in such calls. Whether the kernel has copied. */
static int measure(const char *name, struct copy *c, size_t bytes)
{
    double seconds = bench_measure(copy, c) * (double)(bytes / c->bytes);
    int by_any;
    MPI_Allreduce(&c->is_refused, &by_any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!by_any) bench_result(name, bytes, seconds * 1e6, "us");
    return !by_any;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
    static const size_t spans[] = {8,         8 << 10,   16 << 10, 32 << 10, 64 << 10, 128 << 10,
                                   256 << 10, 512 << 10, 1 << 20,  3 << 19,  2 << 20,  4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    size_t span = bench_uncached_span();
    char *memory = bench_buffer(span);
    uint64_t all[4], mine[2] = {(uint64_t)(uintptr_t)memory, (uint64_t)getpid()};
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for kernels with Yama */
    MPI_Allgather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i], step = (bytes + 3 * 4096) / 4096 * 4096;
        struct copy same = {memory, all[0], (pid_t)all[1], bytes, 0, 0, 0, 0}, uncached = same;
        uncached.step = step;
        uncached.span = span;
        if (!measure("kernel_copy", &same, bytes)) break;
        if (!measure("kernel_copy_uncached", &uncached, bytes)) break;
    }
    for (size_t bytes = ROUND_MIN; bytes <= BENCH_SPAN_MIN; bytes *= 4) {
        struct copy round = {memory, all[0], (pid_t)all[1], CALL_MAX, CALL_MAX, bytes, 0, 0};
        copy(&round, (int)(2 * bytes / CALL_MAX)); /* nothing before has left it in the caches */
        if (!measure("kernel_copy_round", &round, bytes)) break;
    }
    char *into = bench_buffer((size_t)4 << 20);
    struct copy nothing = {into, 0, 0, 1, 0, 0, 0, 0};
    double meet = bench_measure_here(in_turn, &nothing) / 2;
    int other = 1 - bench_rank, by_any = 0;
    for (size_t i = 0; i < sizeof spans / sizeof *spans && !by_any; i++) {
        size_t bytes = spans[i], calls = (bytes + CALL_MAX - 1) / CALL_MAX, call = bytes / calls;
        struct copy c = {into, all[2 * other], (pid_t)all[2 * other + 1], call, 0, bytes, 0, 0};
        double seconds = bench_measure(in_turn, &c) / 2 - meet;
        MPI_Allreduce(&c.is_refused, &by_any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (by_any) break;
        bench_result("kernel_copy_in_turn", bytes, seconds * 1e6, "us");
        if (i == 0) {
            double at_once_us = (bench_measure(at_once, &c) - meet) * 1e6;
            bench_result("kernel_copy_at_once", bytes, at_once_us, "us");
        }
        bench_result("kernel_copy_fresh", bytes, fresh(&c, memory) * 1e6, "us");
    }
    free(into);
    free(memory);
    MPI_Finalize();
    return 0;
}
