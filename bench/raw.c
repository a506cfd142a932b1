/* The machine's raw limits between two pinned processes, in the format of bench.h. No MPI.
 *
 * With the argument `files` also how fast one process writes and reads a file, in BENCH_FILES (the current
 * directory). */
#define _GNU_SOURCE
#include "raw.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <spawn.h>

#define SAMPLES 7

static struct raw_shared *shared;
static int side;
static pid_t other;
static char *mine, *spare;

static void result(const char *name, size_t bytes, double value, const char *unit)
{
    if (side == 0) printf("RESULT %s %zu %.6g %s\n", name, bytes, value, unit);
    fflush(stdout);
}

/* Pins to the n-th CPU this process may use (modulo their number); says how many there are. */
static int pin(int n)
{
    cpu_set_t allowed, one;
    int count, seen = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return 1;
    count = CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == n % count) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            break;
        }
    return count;
}

static void lines(void)
{
    double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) samples[i] = raw_line_pingpong_s(shared, side, 50000);
    result("raw_line_pingpong", 8, raw_median(samples, SAMPLES) * 1e6, "us");
}

static void blocks(void)
{
    static const size_t sizes[] = {1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
    double samples[SAMPLES];
    for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++) {
        size_t bytes = sizes[b];
        unsigned turns = raw_turns(0.004, 1e-6 + (double)bytes / 8e9);
        for (int i = 0; i < SAMPLES; i++) samples[i] = raw_block_pingpong_s(shared, side, mine, bytes, turns);
        result("raw_mapping_pingpong", bytes, raw_median(samples, SAMPLES) * 1e6, "us");
        for (int i = 0; i < SAMPLES; i++)
            samples[i] = raw_readv_pingpong_s(shared, side, other, mine, mine, bytes, turns);
        if (raw_median(samples, SAMPLES) > 0)
            result("raw_readv_pingpong", bytes, raw_median(samples, SAMPLES) * 1e6, "us");
        if (side == 0) {
            for (int i = 0; i < SAMPLES; i++) samples[i] = raw_memcpy_s(spare, mine, bytes, turns);
            result("raw_memcpy_time", bytes, raw_median(samples, SAMPLES) * 1e6, "us");
            result("raw_memcpy", bytes, (double)bytes / raw_median(samples, SAMPLES) * 1e-9, "GB/s");
            for (int i = 0; i < SAMPLES; i++)
                samples[i] = raw_process_vm_readv_s(other, mine, spare, bytes, turns);
            double median = raw_median(samples, SAMPLES);
            if (median > 0) result("raw_process_vm_readv", bytes, (double)bytes / median * 1e-9, "GB/s");
            else fprintf(stderr, "process_vm_readv refused: %s\n", strerror((int)-median));
        }
        raw_meet(shared, side);
    }
    if (side == 0) {
        double call = raw_process_vm_readv_s(other, mine, spare, 1, 20000);
        if (call > 0) result("raw_process_vm_readv_call", 1, call * 1e6, "us");
    }
    raw_meet(shared, side);
}

/* Additions to a word that both map, by one of them: what no atomic operation in a window is faster than. */
static void additions(void)
{
    enum { TURNS = 200000 };
    double samples[SAMPLES];
    if (side != 0) return raw_meet(shared, side);
    for (int i = 0; i < SAMPLES; i++) {
        double begin = raw_now_s();
        for (unsigned turn = 0; turn < TURNS; turn++) atomic_fetch_add(&shared->ball[0].value, 1);
        samples[i] = (raw_now_s() - begin) / TURNS;
    }
    result("raw_fetch_add", 8, raw_median(samples, SAMPLES) * 1e6, "us");
    raw_meet(shared, side);
}

/* Both on one CPU: how long handing over through sched_yield, and through a futex, takes. */
static void hand_overs(void)
{
    enum { TURNS = 20000 };
    pin(0);
    atomic_store(&shared->ball[side].value, 0);
    raw_meet(shared, side);
    double begin = raw_now_s();
    for (unsigned i = 1; i <= TURNS; i++) {
        if (side == 0) atomic_store(&shared->ball[0].value, i);
        while (atomic_load(&shared->ball[1 - side].value) != i) sched_yield();
        if (side == 1) atomic_store(&shared->ball[1].value, i);
    }
    result("raw_yield_same_cpu", 0, (raw_now_s() - begin) / TURNS / 2 * 1e6, "us");
    for (int apart = 0; apart < 2; apart++) {
        unsigned turns = apart ? TURNS / 10 : TURNS;
        pin(apart ? side : 0);
        /* The other side may still wait for the last value of the section before. */
        raw_meet(shared, side);
        atomic_store(&shared->ball[side].value, 0);
        raw_meet(shared, side);
        begin = raw_now_s();
        for (unsigned i = 1; i <= turns; i++)
            for (int who = 0; who < 2; who++) {
                atomic_uint *ball = &shared->ball[who].value;
                if (who == side) {
                    atomic_store(ball, i);
                    syscall(SYS_futex, ball, FUTEX_WAKE, 1, NULL, NULL, 0);
                } else
                    while (atomic_load(ball) != i) syscall(SYS_futex, ball, FUTEX_WAIT, i - 1, NULL, NULL, 0);
            }
        result(apart ? "raw_futex_two_cpus" : "raw_futex_same_cpu", 0, (raw_now_s() - begin) / turns / 2 * 1e6, "us");
    }
}

static void spawns(void)
{
    enum { COUNT = 50 };
    char *argv[] = {"/bin/true", NULL}, *envp[] = {NULL};
    double begin = raw_now_s();
    for (int i = 0; i < COUNT; i++) {
        pid_t pid;
        if (posix_spawn(&pid, argv[0], NULL, NULL, argv, envp)) return;
        waitpid(pid, NULL, 0);
    }
    result("raw_spawn_and_wait", 0, (raw_now_s() - begin) / COUNT * 1e3, "ms");
}

/* A file written over and read 4 MiB at a time, in the page cache if that has room. */
static void files(void)
{
    const size_t bytes = (size_t)256 << 20;
    const char *folder = getenv("BENCH_FILES");
    double writing[SAMPLES], reading[SAMPLES];
    char path[4096];
    snprintf(path, sizeof path, "%s/ayatori-bench-raw.tmp", folder ? folder : ".");
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) return perror(path);
    unlink(path);
    /* The first time brings the pages. */
    for (int i = -1; i < SAMPLES; i++) {
        double begin = raw_now_s(), middle;
        int is_whole = 1;
        for (size_t at = 0; at < bytes; at += RAW_BLOCK_BYTES_MAX)
            is_whole &= pwrite(file, mine, RAW_BLOCK_BYTES_MAX, (off_t)at) == RAW_BLOCK_BYTES_MAX;
        middle = raw_now_s();
        for (size_t at = 0; at < bytes; at += RAW_BLOCK_BYTES_MAX)
            is_whole &= pread(file, mine, RAW_BLOCK_BYTES_MAX, (off_t)at) == RAW_BLOCK_BYTES_MAX;
        if (!is_whole) return perror("a file of 256 MiB");
        if (i >= 0) writing[i] = middle - begin, reading[i] = raw_now_s() - middle;
    }
    close(file);
    result("raw_write", bytes, (double)bytes / raw_median(writing, SAMPLES) * 1e-9, "GB/s");
    result("raw_read", bytes, (double)bytes / raw_median(reading, SAMPLES) * 1e-9, "GB/s");
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return perror("mmap"), 1;
    memset(shared, 0, sizeof *shared);
    if (posix_memalign((void **)&mine, 4096, RAW_BLOCK_BYTES_MAX)) return 1;
    if (posix_memalign((void **)&spare, 4096, RAW_BLOCK_BYTES_MAX)) return 1;
    raw_allow_reading();
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    side = child == 0;
    if (side == 1) prctl(PR_SET_PDEATHSIG, 9);
    other = side == 0 ? child : getppid();
    memset(mine, side + 1, RAW_BLOCK_BYTES_MAX);
    memset(spare, side + 1, RAW_BLOCK_BYTES_MAX);
    if (pin(side) < 2) fprintf(stderr, "one CPU only: the figures between two processes are those of one CPU\n");
    lines();
    blocks();
    additions();
    hand_overs();
    if (side == 1) return 0;
    waitpid(child, NULL, 0);
    spawns();
    if (argc > 1 && !strcmp(argv[1], "files")) files();
    return 0;
}
