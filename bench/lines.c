/* Cache lines that another core has read, got back for writing, by both ranks at once, without messages.
 * GB/s.
 *
 * Each rank writes into a ring of its own, from which the other reads, and then gets the ring's next lines
 * back: as the library's shared memory does after each packet. Nobody goes on before both are done. No figure
 * on AMD's processors, where nobody waits for lines that are fetched so: what is written there later does. */
#include "past.h"

#define PACKET ((size_t)32 << 10)
#define RING ((size_t)128 << 10)
#define TURNS_MAX 20000

struct count { long value, rest[31]; };
struct ring { struct count done; char lines[RING]; } __attribute__((aligned(4096)));

static void meet(struct ring *rings)
{
    static long met;
    __atomic_store_n(&rings[bench_rank].done.value, ++met, __ATOMIC_RELEASE);
    while (__atomic_load_n(&rings[1 - bench_rank].done.value, __ATOMIC_ACQUIRE) < met) continue;
}

/* For writing. */
static void take_back(char *lines)
{
    for (size_t at = 0; at < PACKET; at += LINE) {
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" ::"m"(lines[at])); /* compilers take it for one of reading */
#else
        __builtin_prefetch(lines + at, 1);
#endif
    }
}

int main(int argc, char **argv)
{
    static double back[TURNS_MAX], none[TURNS_MAX];
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    if (is_amd()) return MPI_Finalize();
    char *out = bench_buffer(PACKET), *in = bench_buffer(PACKET);
    struct ring *rings;
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? 2 * sizeof *rings : 0;
    int unit, turns = 0, goes_on = 1;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &rings, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &rings);
    if (bench_rank == 0) memset(rings, 0, 2 * sizeof *rings);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_near_probe();
    double end = MPI_Wtime() + bench_budget_s();
    while (turns < TURNS_MAX && goes_on) {
        for (int i = 0; i < 16 && turns < TURNS_MAX; i++, turns++) {
            size_t at = (size_t)turns * PACKET % RING, next = (at + PACKET) % RING;
            copy_memory(rings[bench_rank].lines + at, out, PACKET);
            meet(rings);
            double t0 = MPI_Wtime(), t1 = MPI_Wtime();
            take_back(rings[bench_rank].lines + next);
            double t2 = MPI_Wtime();
            meet(rings);
            copy_memory(in, rings[1 - bench_rank].lines + at, PACKET);
            meet(rings);
            none[turns] = t1 - t0;
            back[turns] = t2 - t1;
        }
        goes_on = MPI_Wtime() < end;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    bench_near_probe();
    double seconds = bench_median(back, turns) - bench_median(none, turns);
    bench_result("lines_back", PACKET, (double)PACKET / seconds * 1e-9, "GB/s");
    MPI_Win_free(&window);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
