/* Latency and bandwidth between two ranks, beside what this machine can do without any library.
 *
 *     ayatori run -n 2 pingpong
 *
 * The raw limits are measured in the same run by the same two processes on a mapping they share: a cache line each
 * way, and per length the faster of two plain ways (copying in and out of the mapping; process_vm_readv). A library
 * that overlaps its copies can beat the plain way for middle lengths; nothing beats the cache line. */
#define _GNU_SOURCE
#include "../bench/raw.h"

#include <fcntl.h>
#include <mpi.h>

#define SAMPLES 7
#define BYTES_MAX (4u << 20)

static int rank;
static struct raw_shared *shared;
static pid_t pids[2];
static char *blocks[2]; /* addresses in each process */

/* A mapping for both: rank 0's file in memory, which rank 1 opens through /proc. NULL where that is refused. */
static struct raw_shared *map_shared(void)
{
    int file = -1, numbers[2] = {(int)getpid(), -1};
    void *place = MAP_FAILED;
    if (rank == 0) {
        file = memfd_create("pingpong", 0);
        if (file >= 0 && ftruncate(file, sizeof(struct raw_shared)) == 0) numbers[1] = file;
    }
    MPI_Bcast(numbers, 2, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1 && numbers[1] >= 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", numbers[0], numbers[1]);
        file = open(path, O_RDWR);
    }
    if (file >= 0) place = mmap(NULL, sizeof(struct raw_shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int ready = place != MAP_FAILED, all = 0;
    MPI_Allreduce(&ready, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (file >= 0) close(file);
    return all ? place : NULL;
}

/* Seconds one way through MPI. */
static double mpi_one_way_s(char *buffer, int bytes, unsigned turns)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = raw_now_s();
    for (unsigned i = 0; i < turns; i++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
    return (raw_now_s() - begin) / turns / 2;
}

/* Seconds one way of the faster plain method; 0 where the machine refuses both. */
static double raw_one_way_s(size_t bytes, unsigned turns)
{
    double samples[SAMPLES], mapping, readv;
    if (!shared) return 0;
    if (bytes <= 64) {
        for (int i = 0; i < SAMPLES; i++) samples[i] = raw_line_pingpong_s(shared, rank, turns);
        return raw_median(samples, SAMPLES);
    }
    for (int i = 0; i < SAMPLES; i++) samples[i] = raw_block_pingpong_s(shared, rank, blocks[rank], bytes, turns);
    mapping = raw_median(samples, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = raw_readv_pingpong_s(shared, rank, pids[1 - rank], blocks[rank], blocks[1 - rank], bytes, turns);
    readv = raw_median(samples, SAMPLES);
    return readv > 0 && readv < mapping ? readv : mapping;
}

static void row(size_t bytes)
{
    double samples[SAMPLES];
    unsigned turns = raw_turns(0.004, 1e-6 + (double)bytes / 8e9);
    mpi_one_way_s(blocks[rank], (int)bytes, 10);
    for (int i = 0; i < SAMPLES; i++) samples[i] = mpi_one_way_s(blocks[rank], (int)bytes, turns);
    double mpi = raw_median(samples, SAMPLES), raw = raw_one_way_s(bytes, turns);
    if (rank != 0) return;
    printf("%10zu %12.3f", bytes, mpi * 1e6);
    if (bytes >= 1024) printf(" %10.2f", (double)bytes / mpi * 1e-9);
    else printf(" %10s", "");
    if (raw > 0) printf(" %12.3f %8.2f\n", raw * 1e6, mpi / raw);
    else printf(" %12s %8s\n", "refused", "");
    fflush(stdout);
}

/* Wrong data must not pass for speed: one round of every length with a pattern. */
static long wrong_bytes(size_t bytes)
{
    long wrong = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < bytes; i++) blocks[rank][i] = (char)(rank == turn ? i * 7 + bytes + (size_t)turn : 0);
        if (rank == turn) MPI_Send(blocks[rank], (int)bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD);
        else MPI_Recv(blocks[rank], (int)bytes, MPI_CHAR, turn, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (size_t i = 0; i < bytes; i++) wrong += blocks[rank][i] != (char)(i * 7 + bytes + (size_t)turn);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0,        8,         64,        256,       1 << 10, 4 << 10,
                                   16 << 10, 64 << 10, 256 << 10, 1 << 20, BYTES_MAX};
    int ranks, cpus = 0;
    long mine = 0, wrong = 0;
    cpu_set_t allowed;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        if (rank == 0) fprintf(stderr, "pingpong needs exactly 2 ranks, was started with %d\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    raw_allow_reading();
    void *block = NULL;
    if (posix_memalign(&block, 4096, BYTES_MAX)) MPI_Abort(MPI_COMM_WORLD, 3);
    memset(block, rank, BYTES_MAX);
    pid_t pid = getpid();
    MPI_Allgather(&pid, sizeof pid, MPI_BYTE, pids, sizeof pid, MPI_BYTE, MPI_COMM_WORLD);
    MPI_Allgather(&block, sizeof block, MPI_BYTE, blocks, sizeof block, MPI_BYTE, MPI_COMM_WORLD);
    shared = map_shared();
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) cpus = CPU_COUNT(&allowed);
    if (rank == 0) {
        printf("pingpong: 2 ranks, %s; one way, medians of %d\n", cpus == 1 ? "each bound to a CPU" : "not bound", SAMPLES);
        printf("%10s %12s %10s %12s %8s\n", "bytes", "MPI, us", "GB/s", "raw, us", "MPI/raw");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mine += wrong_bytes(sizes[i]);
        row(sizes[i]);
    }
    MPI_Allreduce(&mine, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf(wrong ? "pingpong: FAILED, %ld bytes arrived wrong\n" : "pingpong: PASSED, all data right\n", wrong);
    MPI_Finalize();
    return wrong != 0;
}
