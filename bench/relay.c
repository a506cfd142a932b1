/* What one rank copies into memory that both share and the other copies out at the same time: one way,
 * microseconds. The ranks take turns to send, each through a ring of its own, as the library's shared memory
 * does with long packets between cores: pieces of 32 KiB, written 4 and read 8 pages side by side, rings of
 * 512 KiB, of which a quarter is given back at a time, and at the end the sender fetches the first lines that
 * it writes next. No message is sent meanwhile.
 *
 *   relay   from a buffer of so many bytes into another */
#include "bench.h"

#define PIECE ((size_t)32 << 10)
#define PIECES 16
#define PAGE ((size_t)4096)
#define LINE 64
#define FETCHED ((size_t)32 << 10)

struct count { long value, rest[31]; };
struct ring { struct count written, released; char pieces[PIECES][PIECE]; } __attribute__((aligned(4096)));
struct relay { struct ring *rings; char *out, *in; size_t bytes; long done[2]; };

static long look(struct count *count) { return __atomic_load_n(&count->value, __ATOMIC_ACQUIRE); }
static void say(struct count *count, long value) { __atomic_store_n(&count->value, value, __ATOMIC_RELEASE); }

/* For writing, from such a piece on. */
static void fetch(struct ring *ring, long piece)
{
    for (size_t at = 0; at < FETCHED; at += LINE) {
        char *line = &ring->pieces[(piece + (long)(at / PIECE)) % PIECES][at % PIECE];
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" ::"m"(*line)); /* compilers take it for one of reading */
#else
        __builtin_prefetch(line, 1);
#endif
    }
}

/* So many pages side by side, a line of each in turn. */
static inline void copy(char *to, const char *from, size_t pages)
{
    for (size_t block = 0; block < PIECE; block += pages * PAGE)
        for (size_t line = block; line < block + PAGE; line += LINE)
            for (size_t at = line; at < line + pages * PAGE; at += PAGE) memcpy(to + at, from + at, LINE);
}

static void send(struct relay *r)
{
    struct ring *ring = &r->rings[bench_rank];
    long *done = &r->done[bench_rank];
    for (size_t at = 0; at < r->bytes; at += PIECE) {
        while (*done - look(&ring->released) >= PIECES) continue;
        copy(ring->pieces[*done % PIECES], r->out + at, 4);
        say(&ring->written, ++*done);
    }
    fetch(ring, *done);
}

static void receive(struct relay *r)
{
    struct ring *ring = &r->rings[1 - bench_rank];
    long *done = &r->done[1 - bench_rank];
    for (size_t at = 0; at < r->bytes; at += PIECE) {
        while (look(&ring->written) <= *done) continue;
        copy(r->in + at, ring->pieces[*done % PIECES], 8);
        if (++*done % (PIECES / 4) == 0) say(&ring->released, *done);
    }
}

static void to_and_fro(void *context, int repetitions)
{
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) send(context);
        receive(context);
        if (bench_rank == 1) send(context);
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct relay r = {NULL, bench_buffer(4 << 20), bench_buffer(4 << 20), 0, {0, 0}};
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? 2 * sizeof *r.rings : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r.rings, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &r.rings);
    if (bench_rank == 0) memset(r.rings, 0, 2 * sizeof *r.rings);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        r.bytes = sizes[i];
        bench_result("relay", r.bytes, bench_measure(to_and_fro, &r) / 2 * 1e6, "us");
    }
    MPI_Win_free(&window);
    free(r.out);
    free(r.in);
    MPI_Finalize();
    return 0;
}
