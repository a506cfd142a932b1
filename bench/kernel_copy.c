/* What the kernel takes to copy from another process: one call, microseconds.
 *
 *   kernel_copy            from the same memory into the same memory, again and again
 *   kernel_copy_uncached   from and into memory that is in no cache
 *   kernel_copy_in_turn    so many bytes in calls of 1 MiB, by one rank and then by the other
 *
 * Prints nothing where the kernel refuses. */
#define _GNU_SOURCE
#include "bench.h"

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

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

/* All of the span, by one rank and then by the other. */
static void in_turn(void *context, int repetitions)
{
    struct copy *c = context;
    for (int i = 0; i < 2 * repetitions; i++) {
        for (size_t at = 0; i % 2 == bench_rank && at < c->span; at += c->bytes) {
            struct iovec to = {c->mine + at, c->bytes};
            struct iovec from = {(void *)(uintptr_t)(c->theirs + at), c->bytes};
            if (process_vm_readv(c->pid, &to, 1, &from, 1, 0) != (ssize_t)c->bytes) c->is_refused = 1;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Whether the kernel has copied. */
static int measure(const char *name, struct copy *c)
{
    double seconds = bench_measure(copy, c);
    int by_any;
    MPI_Allreduce(&c->is_refused, &by_any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (!by_any) bench_result(name, c->bytes, seconds * 1e6, "us");
    return !by_any;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
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
        if (!measure("kernel_copy", &same) || !measure("kernel_copy_uncached", &uncached)) break;
    }
    char *into = bench_buffer((size_t)4 << 20);
    int other = 1 - bench_rank;
    for (size_t bytes = 1 << 20; bytes <= (size_t)4 << 20; bytes *= 2) {
        struct copy c = {into, all[2 * other], (pid_t)all[2 * other + 1], 1 << 20, 0, bytes, 0, 0};
        double seconds = bench_measure(in_turn, &c) / 2;
        int by_any;
        MPI_Allreduce(&c.is_refused, &by_any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (by_any) break;
        bench_result("kernel_copy_in_turn", bytes, seconds * 1e6, "us");
    }
    free(into);
    free(memory);
    MPI_Finalize();
    return 0;
}
