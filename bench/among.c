/* What copies take while all ranks work at once, without messages: the slowest rank's time. Run among two
 * ranks and among more, each on a CPU of its own, it shows how much longer the same takes among more.
 *
 *   written             each writes so many bytes over what all others have read, GB/s
 *   read_parts          each reads so many bytes in all, a part from what each has just written, GB/s
 *   kernel_copy_among   each has the kernel copy so many bytes that its neighbour has just written,
 *                       microseconds; none where the kernel refuses */
#include "past.h"

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#define RANKS_MAX 256
#define AREA ((size_t)64 << 10)
#define AREAS 4
#define KERNEL_COPY_MAX ((size_t)1 << 20)
#define TURNS_MAX 4000

struct line { long value, rest[31]; };
struct shared { struct line met, released; char areas[]; };

static struct shared *shared;

/* All are here. */
static void meet(void)
{
    static long number;
    number++;
    if (__atomic_add_fetch(&shared->met.value, 1, __ATOMIC_ACQ_REL) == number * bench_size)
        __atomic_store_n(&shared->released.value, number, __ATOMIC_RELEASE);
    while (__atomic_load_n(&shared->released.value, __ATOMIC_ACQUIRE) < number) bench_pause();
}

static char *area_of(int rank, int turn)
{
    return shared->areas + ((size_t)rank * AREAS + (size_t)turn % AREAS) * AREA;
}

/* The slowest rank's median. */
static double slowest(double *seconds, int turns)
{
    double mine = bench_median(seconds, turns), most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static int goes_on(double end)
{
    int more = MPI_Wtime() < end;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static void areas(size_t bytes, char *out, char *in)
{
    static double write_s[TURNS_MAX], read_s[TURNS_MAX];
    size_t part = bytes / (size_t)bench_size;
    int turns = 0;
    double end = MPI_Wtime() + bench_budget_s();
    bench_near_probe();
    do {
        for (int i = 0; i < AREAS && turns < TURNS_MAX; i++, turns++) {
            meet();
            double t0 = MPI_Wtime();
            copy_memory(area_of(bench_rank, turns), out, bytes);
            double t1 = MPI_Wtime();
            meet();
            double t2 = MPI_Wtime();
            for (int n = 0; n < bench_size; n++) {
                int from = (bench_rank + n) % bench_size;
                copy_memory(in + part * (size_t)from, area_of(from, turns) + part * (size_t)bench_rank, part);
            }
            double t3 = MPI_Wtime();
            write_s[turns] = t1 - t0;
            read_s[turns] = t3 - t2;
        }
    } while (goes_on(end) && turns < TURNS_MAX);
    double written = slowest(write_s, turns), read = slowest(read_s, turns);
    bench_near_probe();
    bench_result("written", bytes, (double)bytes / written * 1e-9, "GB/s");
    bench_result("read_parts", bytes, (double)bytes / read * 1e-9, "GB/s");
}

/* From the next rank. */
static void kernel_copies(char *out, char *in)
{
    static double copy_s[TURNS_MAX];
    int next = (bench_rank + 1) % bench_size, is_refused = 0, by_any;
    uint64_t mine[2] = {(uint64_t)(uintptr_t)out, (uint64_t)getpid()}, theirs[2 * RANKS_MAX];
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for kernels with Yama */
    MPI_Allgather(mine, 2, MPI_UINT64_T, theirs, 2, MPI_UINT64_T, MPI_COMM_WORLD);
    for (size_t bytes = 64 << 10; bytes <= KERNEL_COPY_MAX; bytes *= 4) {
        struct iovec to = {in, bytes}, from = {(void *)(uintptr_t)theirs[2 * next], bytes};
        pid_t pid = (pid_t)theirs[2 * next + 1];
        int turns = 0;
        double end = MPI_Wtime() + bench_budget_s();
        bench_near_probe();
        do {
            memset(out, turns, bytes);
            meet();
            double begin = MPI_Wtime();
            is_refused |= process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)bytes;
            copy_s[turns++] = MPI_Wtime() - begin;
            meet();
        } while (goes_on(end) && turns < TURNS_MAX);
        double seconds = slowest(copy_s, turns);
        bench_near_probe();
        MPI_Allreduce(&is_refused, &by_any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (by_any) return;
        bench_result("kernel_copy_among", bytes, seconds * 1e6, "us");
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {4 << 10, 16 << 10, AREA};
    bench_start(&argc, &argv);
    if (bench_size > RANKS_MAX) {
        if (bench_rank == 0) fprintf(stderr, "%s takes %d ranks at most\n", argv[0], RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Win window;
    size_t all = sizeof *shared + (size_t)bench_size * AREAS * AREA;
    MPI_Aint bytes = bench_rank == 0 ? (MPI_Aint)all : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &shared);
    if (bench_rank == 0) memset(shared, 0, all);
    MPI_Barrier(MPI_COMM_WORLD);
    char *out = bench_buffer(KERNEL_COPY_MAX), *in = bench_buffer(KERNEL_COPY_MAX);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) areas(sizes[i], out, in);
    kernel_copies(out, in);
    MPI_Win_free(&window);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
