/* Data in memory that two ranks share, which one writes and the other reads, both ranks at once, without
 * messages: as collective operations in shared memory do. Microseconds.
 *
 *   shared_write        so many bytes into an area that the other rank has read, until the other sees it
 *   shared_read         so many bytes of an area that the other rank has just written
 *   shared_write_within 64 KiB so, where a rank goes through so many bytes until it writes there again: as
 *                       many areas have left its caches
 *   shared_write_past   as shared_write and shared_read, written past the caches; none where there are no such
 *   shared_read_past    stores
 *
 * Each rank has four areas of so many bytes, or more of 64 KiB, and takes them in turn. */
#include "past.h"

#define AREAS 4
#define AREAS_MAX 32
#define AREA ((size_t)64 << 10)
#define TURNS_MAX 20000
/* A figure is more than nothing: the clock's own time is left out. */
#define LEAST_S 1e-10

struct count { long value, rest[31]; };
struct shared { struct count met[2]; char areas[2][AREAS_MAX][AREA] __attribute__((aligned(4096))); };

static struct shared *shared;

static void meet(void)
{
    static long met;
    __atomic_store_n(&shared->met[bench_rank].value, ++met, __ATOMIC_RELEASE);
    while (__atomic_load_n(&shared->met[1 - bench_rank].value, __ATOMIC_ACQUIRE) < met) bench_pause();
}

static double more_than(double seconds, double less)
{
    return seconds - less > LEAST_S ? seconds - less : LEAST_S;
}

/* What so many areas take: what is written, and what is read. */
static void areas(int is_past, size_t bytes, int count, char *out, char *in, double us[2])
{
    static double meet_s[TURNS_MAX], write_s[TURNS_MAX], read_s[TURNS_MAX], none_s[TURNS_MAX];
    int turns = 0, goes_on = 1, was_read = 0;
    bench_near_probe();
    double end = MPI_Wtime() + bench_budget_s();
    while (turns < TURNS_MAX && goes_on) {
        for (int area = 0; area < count; area++, turns += was_read) {
            char *mine = shared->areas[bench_rank][area], *other = shared->areas[1 - bench_rank][area];
            meet();
            double t0 = MPI_Wtime();
            meet();
            double t1 = MPI_Wtime();
            past_copy_by(is_past, mine, out, bytes);
            meet(); /* what is written may wait in the CPU until then */
            double t2 = MPI_Wtime();
            copy_memory(in, other, bytes);
            __asm__ volatile("" ::"r"(in) : "memory");
            double t3 = MPI_Wtime(), t4 = MPI_Wtime();
            meet_s[turns] = t1 - t0;
            write_s[turns] = t2 - t1;
            read_s[turns] = t3 - t2;
            none_s[turns] = t4 - t3;
        }
        goes_on = !was_read || MPI_Wtime() < end;
        was_read = 1; /* the first round does not count */
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    double met = bench_median(meet_s, turns), none = bench_median(none_s, turns);
    us[0] = 1e6 * more_than(bench_median(write_s, turns), met);
    us[1] = 1e6 * more_than(bench_median(read_s, turns), none);
    bench_near_probe();
}

static void short_areas(int is_past, size_t bytes, char *out, char *in)
{
    double us[2];
    areas(is_past, bytes, AREAS, out, in, us);
    bench_result(is_past ? "shared_write_past" : "shared_write", bytes, us[0], "us");
    bench_near_probe();
    bench_result(is_past ? "shared_read_past" : "shared_read", bytes, us[1], "us");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1 << 10, 2 << 10, 4 << 10, 16 << 10, AREA};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    char *out = bench_buffer(AREA), *in = bench_buffer(AREA);
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? sizeof *shared : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &shared);
    if (bench_rank == 0) memset(shared, 0, sizeof *shared);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int is_past = 0; is_past <= has_past(); is_past++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) short_areas(is_past, sizes[i], out, in);
    for (int count = AREAS; count <= AREAS_MAX; count *= 2) {
        double us[2];
        areas(0, AREA, count, out, in, us);
        /* Its areas, the other's, and its own memory. */
        bench_result("shared_write_within", 2 * (size_t)(count + 1) * AREA, us[0], "us");
    }
    MPI_Win_free(&window);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
