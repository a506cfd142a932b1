/* Shared by the benchmark programs: repetition counts, medians, one output format.
 *
 * Every program prints one line per figure, from rank 0 only:
 *     RESULT <benchmark> <bytes> <value> <unit>
 * `cargo xtask bench` parses these lines; everything else on stdout is ignored.
 *
 * BENCH_BUDGET_MS (default 60) bounds the time spent on one figure. A figure is the median of BENCH_SAMPLES
 * loops, so that one interrupt does not move it.
 *
 * BENCH_NEAR names a file for memory that the ranks share. Where it is set, a line comes before each figure:
 *     NEAR <ns> <ns> <GB/s> <GB/s>
 * least and most of what a cache line took between the CPUs of two ranks and of what both copied at once,
 * before and after the figure was measured. They tell where a hypervisor has put the two CPUs: on one core of
 * its own, near each other or far.
 *
 * BENCH_WARM_MS: so long the same is done before each figure, for what the library learns first.
 *
 * BENCH_APART: each rank runs on a CPU of its own, also where no launcher sees to that (ranks that are on
 * several hosts by name only). */
#ifndef AYATORI_BENCH_H
#define AYATORI_BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BENCH_SAMPLES 7
#define BENCH_REPETITIONS_MAX 200000

static int bench_rank, bench_size;
/* CPUs that the ranks may run on, before each is put on one. */
static int bench_cpu_count = 1;

static inline void bench_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench_size);
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    bench_cpu_count = CPU_COUNT(&all);
    if (!getenv("BENCH_APART")) return;
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && seen++ == bench_rank % CPU_COUNT(&all)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
}

/* Two-rank programs say so instead of hanging. */
static inline void bench_need_two(const char *name)
{
    if (bench_size == 2) return;
    if (bench_rank == 0) fprintf(stderr, "%s needs exactly 2 ranks, was started with %d\n", name, bench_size);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static inline double bench_budget_s(void)
{
    const char *text = getenv("BENCH_BUDGET_MS");
    double ms = text ? atof(text) : 60;
    return (ms > 0 ? ms : 60) * 1e-3;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, bench_compare);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Page-aligned, touched: page faults are not what is measured. */
static inline char *bench_buffer(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes ? bytes : 1)) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    memset(memory, 1 + bench_rank, bytes ? bytes : 1);
    return memory;
}

#define BENCH_SPAN_MIN ((size_t)64 << 20)
#define BENCH_SPAN_MAX ((size_t)512 << 20)

/* Twice the last cache: who goes round so much memory finds none of it there. */
static inline size_t bench_uncached_span(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t span = cache > 0 ? 2 * (size_t)cache : 0;
    return span < BENCH_SPAN_MIN ? BENCH_SPAN_MIN : span > BENCH_SPAN_MAX ? BENCH_SPAN_MAX : span;
}

#define BENCH_NEAR_TURNS 100
#define BENCH_NEAR_BURSTS 8
#define BENCH_NEAR_BYTES (64 << 10)

/* What two ranks share to tell how near their CPUs are; no two words are fetched together. */
struct bench_near { long met, pad[31], line, more[31]; };

static struct {
    struct bench_near *shared;
    long met_count;
    int is_known;
    double line_ns[2], copy_gbytes[2]; /* least and most */
} bench_near;

static inline void bench_near_meet(void)
{
    bench_near.met_count += 2;
    __atomic_add_fetch(&bench_near.shared->met, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&bench_near.shared->met, __ATOMIC_ACQUIRE) < bench_near.met_count) continue;
}

/* A line's way from CPU to CPU, nanoseconds. */
static inline double bench_near_line(void)
{
    long *line = &bench_near.shared->line;
    double best = 1e9;
    for (int burst = 0; burst < BENCH_NEAR_BURSTS; burst++) {
        if (bench_rank == 0) __atomic_store_n(line, 0, __ATOMIC_RELAXED);
        bench_near_meet();
        double begin = MPI_Wtime();
        for (long turn = 0; turn < BENCH_NEAR_TURNS; turn++) {
            long mine = 2 * turn + bench_rank;
            while (__atomic_load_n(line, __ATOMIC_ACQUIRE) != mine) continue;
            __atomic_store_n(line, mine + 1, __ATOMIC_RELEASE);
        }
        double ns = (MPI_Wtime() - begin) * 1e9 / (2 * BENCH_NEAR_TURNS);
        if (ns < best) best = ns;
        bench_near_meet();
    }
    return best;
}

/* What this CPU copies while the other does, GB/s. */
static inline double bench_near_copy(void)
{
    static char from[BENCH_NEAR_BYTES], to[BENCH_NEAR_BYTES];
    double best = 0;
    memset(from, 1, sizeof from); /* pages of its own */
    for (int burst = 0; burst < BENCH_NEAR_BURSTS; burst++) {
        bench_near_meet();
        double begin = MPI_Wtime();
        for (int turn = 0; turn < 20; turn++) {
            memcpy(to, from, sizeof to);
            __asm__ volatile("" ::"r"(to) : "memory");
        }
        double rate = 20.0 * BENCH_NEAR_BYTES / (MPI_Wtime() - begin) * 1e-9;
        if (rate > best) best = rate;
    }
    return best;
}

/* Ranks 0 and 1, each on the CPU that it is on, or on the next one where both are on one. */
static inline void bench_near_probe(void)
{
    const char *file = getenv("BENCH_NEAR");
    if (!file || bench_size < 2) return;
    cpu_set_t all, one;
    int cpus[2], cpu = sched_getcpu();
    sched_getaffinity(0, sizeof all, &all);
    /* A run that was cut short has left its counts in it. */
    if (bench_rank == 0 && !bench_near.shared) unlink(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench_rank < 2) {
        int other_rank = 1 - bench_rank;
        MPI_Sendrecv(&cpu, 1, MPI_INT, other_rank, 9, &cpus[other_rank], 1, MPI_INT, other_rank, 9,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        cpus[bench_rank] = cpu;
        for (int other = 0; cpus[0] == cpus[1] && other < CPU_SETSIZE; other++)
            if (other != cpus[0] && CPU_ISSET(other, &all)) cpus[1] = other;
        if (cpus[0] != cpus[1]) {
            if (!bench_near.shared) {
                int fd = open(file, O_RDWR | O_CREAT, 0600);
                void *memory = MAP_FAILED;
                if (fd >= 0 && ftruncate(fd, sizeof *bench_near.shared) == 0)
                    memory = mmap(NULL, sizeof *bench_near.shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (memory == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 4);
                close(fd);
                bench_near.shared = memory;
            }
            CPU_ZERO(&one);
            CPU_SET(cpus[bench_rank], &one);
            sched_setaffinity(0, sizeof one, &one);
            double line_ns = bench_near_line(), copy = bench_near_copy();
            sched_setaffinity(0, sizeof all, &all);
            if (!bench_near.is_known || line_ns < bench_near.line_ns[0]) bench_near.line_ns[0] = line_ns;
            if (!bench_near.is_known || line_ns > bench_near.line_ns[1]) bench_near.line_ns[1] = line_ns;
            if (!bench_near.is_known || copy < bench_near.copy_gbytes[0]) bench_near.copy_gbytes[0] = copy;
            if (!bench_near.is_known || copy > bench_near.copy_gbytes[1]) bench_near.copy_gbytes[1] = copy;
            bench_near.is_known = 1;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static inline void bench_result(const char *name, size_t bytes, double value, const char *unit)
{
    if (bench_rank != 0) return;
    if (bench_near.is_known)
        printf("NEAR %.4g %.4g %.4g %.4g\n", bench_near.line_ns[0], bench_near.line_ns[1],
               bench_near.copy_gbytes[0], bench_near.copy_gbytes[1]);
    bench_near.is_known = 0;
    printf("RESULT %s %zu %.6g %s\n", name, bytes, value, unit);
    fflush(stdout);
}

/* Between two looks at memory that another rank writes. */
static inline void bench_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* as Rust's spin_loop */
#endif
}

/* Message lengths from nothing to 4 MiB. */
__attribute__((unused))
static const int bench_sizes[] = {0,       8,       64,      256,       1 << 10,   4 << 10,   8 << 10,  16 << 10,
                                  32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
#define BENCH_SIZES (sizeof bench_sizes / sizeof *bench_sizes)

/* BENCH_SIZE: only figures of messages of so many bytes. */
static inline int bench_wants(int bytes)
{
    const char *only = getenv("BENCH_SIZE");
    return !only || atoi(only) == bytes;
}

/* Whether a program's arguments name a figure, or none. */
static inline int bench_wants_name(int argc, char **argv, const char *name)
{
    int is_wanted = argc == 1;
    for (int i = 1; i < argc; i++) is_wanted |= !strcmp(argv[i], name);
    return is_wanted;
}

/* What is timed: `repetitions` turns, called by every rank. */
typedef void (*bench_body)(void *context, int repetitions);

/* A ping-pong between two ranks. Where `step` is not 0 the turns go round `span` bytes of each buffer. */
struct bench_ping { char *out, *in; int bytes; size_t step, span; };

static inline void bench_ping_pong(void *context, int repetitions)
{
    struct bench_ping *p = context;
    size_t at = 0;
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) {
            MPI_Send(p->out + at, p->bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(p->in + at, p->bytes, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(p->in + at, p->bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(p->out + at, p->bytes, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
        }
        at += p->step;
        if (at + (size_t)p->bytes > p->span) at = 0;
    }
}

static inline double bench_time(bench_body body, void *context, int repetitions)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    body(context, repetitions);
    return MPI_Wtime() - begin;
}

/* What is measured goes on for BENCH_WARM_MS first. */
static inline void bench_warm(bench_body body, void *context)
{
    const char *text = getenv("BENCH_WARM_MS");
    double end = MPI_Wtime() + (text ? atof(text) : 0) * 1e-3;
    for (int goes_on = !!text; goes_on;) {
        body(context, 16);
        goes_on = MPI_Wtime() < end;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

/* Seconds of one turn of `body`: the slowest rank's time, median over samples. Collective over the world. */
static inline double bench_measure_here(bench_body body, void *context)
{
    double budget = bench_budget_s(), samples[BENCH_SAMPLES];
    int repetitions = 1;
    body(context, 1); /* connections, first touch */
    bench_warm(body, context);
    for (;;) {
        double mine = bench_time(body, context, repetitions), slowest;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        int enough = slowest > budget / 20 || repetitions >= BENCH_REPETITIONS_MAX;
        if (enough) {
            double fit = budget / BENCH_SAMPLES / (slowest / repetitions);
            repetitions = fit < 1 ? 1 : fit > BENCH_REPETITIONS_MAX ? BENCH_REPETITIONS_MAX : (int)fit;
            MPI_Bcast(&repetitions, 1, MPI_INT, 0, MPI_COMM_WORLD);
            /* One turn already takes longer than the whole budget: three samples must do. */
            int count = slowest / repetitions > budget ? 3 : BENCH_SAMPLES;
            MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
            for (int i = 0; i < count; i++) {
                mine = bench_time(body, context, repetitions);
                MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
                samples[i] = slowest / repetitions;
            }
            return bench_median(samples, count);
        }
        repetitions *= 4;
    }
}

/* The same, with a look where the CPUs are before and after. */
static inline double bench_measure(bench_body body, void *context)
{
    bench_near_probe();
    double seconds = bench_measure_here(body, context);
    bench_near_probe();
    return seconds;
}

#endif
