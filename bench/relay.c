/* What one rank copies into memory that both share and the other copies out at the same time: one way,
 * microseconds. The ranks take turns to send, each through a ring of its own, as the library's shared memory
 * does with long packets between cores: packets of 128 KiB in pieces of 32 KiB, written 4 and read 8 pages
 * side by side, or as memory is copied where all of a packet is there when its reader comes to it; rings of
 * 512 KiB, of which a quarter is given back at a time, and at the end the sender fetches the first lines it
 * writes next. On AMD's processors rings of 2 MiB, packets of 512 KiB and pieces of 4 to 16 KiB, or of 16
 * past the caches. No message is sent meanwhile.
 *
 *   relay         from a buffer of so many bytes into another
 *   block_relay   the same in blocks, each of which its reader has for what it sends next: on AMD's
 *                 processors
 *   block_piece   the pieces in which a packet of a line more than 32 KiB and the longest go there, KiB
 *   relay_round   1 MiB at a time from all of so many bytes, one way; then the receiver answers */
#include "past.h"

#define RING_MAX ((size_t)2 << 20)
/* A line more than the longest packet of `bench/packets.c`. */
#define SHORTEST (((size_t)32 << 10) + LINE)
#define BLOCK_BEGIN ((size_t)BLOCK_BEGIN_KIB << 10)
#define FETCHED ((size_t)32 << 10)
#define AT_A_TIME ((size_t)1 << 20)
#define ROUND_MAX ((size_t)64 << 20)

struct count { long value, rest[31]; };
/* Bytes written and given back. */
struct ring {
    struct count written, released, answers;
    int blocks[2 * BLOCKS]; /* of the packets under way */
    char bytes[RING_MAX];
} __attribute__((aligned(4096)));
struct relay {
    struct ring *rings;
    char *out, *in;
    size_t bytes, ring_bytes, round_bytes;
    long done[2], answers;
    struct past past;
    /* Memory of both ranks' blocks, those that are this rank's, and packets in blocks sent and received. */
    char *blocks;
    int mine[2 * BLOCKS], count;
    long packets[2];
};

static long look(struct count *count) { return __atomic_load_n(&count->value, __ATOMIC_ACQUIRE); }
static void say(struct count *count, long value) { __atomic_store_n(&count->value, value, __ATOMIC_RELEASE); }

static size_t packet_at(const struct relay *r, size_t at)
{
    return r->bytes - at < packet_max() ? r->bytes - at : packet_max();
}

/* For writing, from there on. */
static void fetch(const char *from)
{
    for (size_t at = 0; at < FETCHED; at += LINE) {
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" ::"m"(from[at])); /* compilers take it for one of reading */
#else
        __builtin_prefetch(from + at, 1);
#endif
    }
}

static void send(struct relay *r)
{
    struct ring *ring = &r->rings[bench_rank];
    long *done = &r->done[bench_rank];
    past_next(&r->past);
    size_t piece = piece_of(&r->past, packet_at(r, 0), 0);
    for (size_t at = 0; at < r->bytes; at += piece) {
        while (*done + (long)piece - look(&ring->released) > (long)r->ring_bytes) continue;
        char *to = ring->bytes + (size_t)*done % r->ring_bytes;
        if (is_amd()) past_copy(&r->past, to, r->out + at, piece);
        else copy_pages(to, r->out + at, piece, 4);
        say(&ring->written, *done += (long)piece);
    }
    if (!r->past.goes) fetch(ring->bytes + (size_t)*done % r->ring_bytes);
}

static void receive(struct relay *r)
{
    struct ring *ring = &r->rings[1 - bench_rank];
    long *done = &r->done[1 - bench_rank], quarter = (long)r->ring_bytes / 4;
    for (size_t at = 0; at < r->bytes;) {
        size_t from = (size_t)*done % r->ring_bytes, there = (size_t)(look(&ring->written) - *done);
        size_t rest = packet_max() - at % packet_max();
        if (rest > r->bytes - at) rest = r->bytes - at;
        /* A packet that is whole when it is first looked at is copied as memory is. */
        int is_whole = at % packet_max() == 0 && there >= rest;
        if (there > rest) there = rest;
        if (is_whole) copy_memory(r->in + at, ring->bytes + from, there);
        else copy_out(r->in + at, ring->bytes + from, there, packet_at(r, at / packet_max() * packet_max()));
        at += there;
        if ((*done + (long)there) / quarter > *done / quarter) say(&ring->released, *done + (long)there);
        *done += (long)there;
    }
}

static void send_in_blocks(struct relay *r)
{
    struct ring *ring = &r->rings[bench_rank];
    for (size_t at = 0; at < r->bytes; at += packet_max()) {
        size_t bytes = packet_at(r, at), piece = piece_of(&r->past, bytes, 1);
        int block = r->mine[--r->count];
        ring->blocks[r->packets[bench_rank]++ % (2 * BLOCKS)] = block;
        char *to = r->blocks + (size_t)block * BLOCK_BYTES + BLOCK_BEGIN;
        for (size_t done = 0; done < bytes; done += piece) {
            copy_memory(to + done, r->out + at + done, piece);
            say(&ring->written, r->done[bench_rank] += (long)piece);
        }
    }
}

static void receive_in_blocks(struct relay *r)
{
    struct ring *ring = &r->rings[1 - bench_rank];
    for (size_t at = 0; at < r->bytes; at += packet_max()) {
        size_t bytes = packet_at(r, at), there;
        long begin = r->done[1 - bench_rank];
        while (look(&ring->written) == begin) bench_pause();
        int block = ring->blocks[r->packets[1 - bench_rank]++ % (2 * BLOCKS)];
        const char *from = r->blocks + (size_t)block * BLOCK_BYTES + BLOCK_BEGIN;
        for (size_t done = 0; done < bytes; done = there) {
            there = (size_t)(look(&ring->written) - begin);
            if (there > bytes) there = bytes;
            copy_memory(r->in + at + done, from + done, there - done);
        }
        r->done[1 - bench_rank] += (long)bytes;
        r->mine[r->count++] = block;
    }
}

static void in_blocks(void *context, int repetitions)
{
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) send_in_blocks(context);
        receive_in_blocks(context);
        if (bench_rank == 1) send_in_blocks(context);
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

/* From rank 0 to rank 1. */
static void one_way(void *context, int repetitions)
{
    struct relay *r = context;
    char *out = r->out, *in = r->in;
    for (int i = 0; i < repetitions; i++) {
        for (size_t at = 0; at < r->round_bytes; at += r->bytes, r->out += r->bytes, r->in += r->bytes) {
            if (bench_rank == 0) send(r);
            else receive(r);
        }
        r->out = out;
        r->in = in;
        r->answers++;
        if (bench_rank == 1) say(&r->rings[1].answers, r->answers);
        while (look(&r->rings[1].answers) != r->answers) bench_pause();
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct relay r = {
        NULL, bench_buffer(ROUND_MAX), bench_buffer(ROUND_MAX), 0, 0, 0, {0, 0}, 0, {0}, NULL, {0}, 0, {0, 0},
    };
    r.ring_bytes = is_amd() ? RING_MAX : RING_MAX / 4;
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? (MPI_Aint)(2 * sizeof *r.rings + 2 * BLOCKS * BLOCK_BYTES) : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r.rings, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &r.rings);
    if (bench_rank == 0) memset(r.rings, 0, (size_t)bytes);
    r.blocks = (char *)(r.rings + 2);
    for (int i = 0; i < BLOCKS; i++) r.mine[r.count++] = 2 * i + bench_rank;
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        r.bytes = sizes[i];
        past_begin(&r.past);
        to_and_fro(&r, is_amd() ? past_turns(r.bytes) : 0);
        bench_result("relay", r.bytes, bench_measure(to_and_fro, &r) / 2 * 1e6, "us");
        if (i == 0) tell_piece(&r.past, SHORTEST, 0);
    }
    r.bytes = AT_A_TIME;
    for (r.round_bytes = ROUND_MAX / 8; r.round_bytes <= ROUND_MAX; r.round_bytes *= 2)
        bench_result("relay_round", r.round_bytes, bench_measure(one_way, &r) * 1e6, "us");
    r.done[0] = r.done[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench_rank == 0) r.rings[0].written.value = r.rings[1].written.value = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && takes_block(sizes[i]); i++) {
        r.bytes = sizes[i];
        if (r.bytes > BLOCKS * packet_max()) break;
        bench_result("block_relay", r.bytes, bench_measure(in_blocks, &r) / 2 * 1e6, "us");
        if (i == 0) tell_piece(&r.past, SHORTEST, 1);
        if (i == 0) tell_piece(&r.past, packet_max(), 1);
    }
    MPI_Win_free(&window);
    free(r.out);
    free(r.in);
    MPI_Finalize();
    return 0;
}
