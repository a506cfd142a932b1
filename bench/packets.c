/* What packets take through memory that two ranks share, without messages: microseconds.
 *
 *   packet           one way, by turns
 *   packets_in_row   each of 16 one right after another, which are answered by one of 8 B
 *
 * From the sender's memory into a ring and from there into the receiver's, as the library's shared memory
 * (`ayatori_devices::shm`, ring): up to 32 B lie in a line with a header and the word that the receiver
 * waits for, up to 88 B in two, of which the receiver asks for the second one while it waits, and more in
 * lines of their own. The sender fetches the next packet's lines back when it has written this one. On AMD's
 * processors packets of 512 B to 2 KiB go back to the first 8 KiB of the lines once these have been read,
 * shorter ones go round all lines, longer ones round 2 MiB, those of 4 and 8 KiB in two halves of which the
 * receiver copies out the first while the second is written, or past the caches. Who waits pauses between two
 * looks. */
#include "past.h"

#define LINE 64
#define HEADER 24
#define SLOT (LINE - 8)
#define PAIR (2 * SLOT)
#define SLOTS 256
#define LINES ((size_t)128 << 10)
/* Packets up to this go round the first half of the lines. */
#define SHORT ((size_t)2 << 10)
/* The first lines, which are taken again where that is quicker, and by which packets. */
#define FIRST ((size_t)8 << 10)
#define AGAIN_MIN ((size_t)512)
#define AGAIN_MAX ((size_t)2 << 10)
/* Longer ones on AMD's processors, and those that go in halves. */
#define MORE_LINES ((size_t)2 << 20)
#define HALVES_MIN ((size_t)4 << 10)
#define WRITE_AHEAD 4
#define READ_AHEAD 2
#define EARLY_POLLS 4
#define WINDOW 16
#define ANSWER 8

/* Two lines that processors fetch together, a word at either end. */
struct pair { long even; char bytes[PAIR]; long odd; } __attribute__((aligned(128)));
struct count { long value, rest[31]; };
struct ring {
    struct pair pairs[SLOTS / 2];
    struct count read, filled;
    char lines[MORE_LINES];
} __attribute__((aligned(4096)));
/* Packets sent or received, and of them those of which the sender knows, or the receiver has told, that they
 * were read. */
struct end { long slot; size_t at; long packets, known, told, filled; };
struct way {
    struct ring *to, *from;
    struct end sent, received;
    char *out, *in;
    size_t bytes;
    int by_turns;
    struct past past;
};

static long *word_of(struct ring *ring, long slot)
{
    struct pair *pair = &ring->pairs[slot % SLOTS / 2];
    return slot % 2 ? &pair->odd : &pair->even;
}

static char *bytes_of(struct ring *ring, long slot)
{
    return ring->pairs[slot % SLOTS / 2].bytes + slot % 2 * SLOT;
}

static void fetch_to_write(const char *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*line)); /* compilers take it for one of reading */
#else
    __builtin_prefetch(line, 1);
#endif
}

static size_t lines_of(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* Where a packet's lines begin. With `ring`, the sender may ask what the receiver has read. */
static size_t place_of(struct end *end, size_t bytes, struct ring *ring)
{
    size_t most = bytes > SHORT || (bytes < AGAIN_MIN && is_amd()) ? LINES : LINES / 2, len = lines_of(bytes);
    if (bytes > SHORT && is_amd()) most = MORE_LINES;
    if (bytes >= AGAIN_MIN && bytes <= AGAIN_MAX && end->at + len > FIRST && is_amd()) {
        long oldest = end->packets - (long)(end->at / len) + 1; /* the first of them has been read */
        if (end->known < oldest && ring && end->at % FIRST < len)
            end->known = __atomic_load_n(&ring->read.value, __ATOMIC_ACQUIRE);
        if (end->known >= oldest) end->at = 0;
    }
    if (end->at + len > most) end->at = 0;
    size_t at = end->at;
    end->at += len;
    return at;
}

static int is_in_halves(struct way *w) { return is_amd() && w->bytes >= HALVES_MIN; }

static void fill(struct ring *ring, size_t bytes)
{
    __atomic_store_n(&ring->filled.value, ring->filled.value + (long)bytes, __ATOMIC_RELEASE);
}

/* The lines of a long packet; past the caches all of it before the receiver is told. */
static void write_lines(struct way *w, char *to)
{
    size_t half = w->bytes / 2;
    if (!is_in_halves(w)) {
        memcpy(to, w->out, w->bytes);
    } else if (w->past.goes) {
        past_copy(&w->past, to, w->out, w->bytes);
        fill(w->to, w->bytes);
    } else {
        past_copy(&w->past, to, w->out, half);
        fill(w->to, half);
        past_copy(&w->past, to + half, w->out + half, half);
        fill(w->to, half);
    }
}

static void send_one(struct way *w)
{
    static char header[HEADER];
    struct ring *ring = w->to;
    struct end *end = &w->sent;
    size_t bytes = w->bytes, in_first = bytes < SLOT - HEADER ? bytes : SLOT - HEADER, at = 0;
    int is_pair = HEADER + bytes > SLOT && HEADER + bytes <= PAIR, is_long = HEADER + bytes > PAIR;
    char *slot = bytes_of(ring, end->slot);
    header[0] = (char)end->slot;
    if (is_in_halves(w)) past_next(&w->past);
    /* Who has read everything that came back knows that all was read before that was sent. */
    if (w->by_turns) end->known = end->packets;
    if (is_long) {
        at = place_of(end, bytes, ring);
        memcpy(header + 8, &at, sizeof at);
        if (!is_in_halves(w) || w->past.goes) write_lines(w, ring->lines + at);
    } else if (is_pair) {
        memcpy(slot + SLOT, w->out + in_first, bytes - in_first); /* not while the receiver asks for it */
    }
    memcpy(slot, header, HEADER);
    if (!is_long) memcpy(slot + HEADER, w->out, in_first);
    int is_past = w->past.goes;
    __atomic_store_n(word_of(ring, end->slot), end->slot + 1, __ATOMIC_RELEASE);
    if (is_long && is_in_halves(w) && !is_past) write_lines(w, ring->lines + at);
    end->slot += 1 + is_pair;
    end->packets++;
    fetch_to_write(bytes_of(ring, end->slot + WRITE_AHEAD));
    if (is_pair) fetch_to_write(bytes_of(ring, end->slot + WRITE_AHEAD + 1));
    struct end next = *end;
    size_t next_at = is_long ? place_of(&next, bytes, NULL) : 0;
    for (size_t line = 0; is_long && !is_past && line < bytes; line += LINE)
        fetch_to_write(ring->lines + next_at + line);
}

static void receive_one(struct way *w)
{
    struct ring *ring = w->from;
    struct end *end = &w->received;
    size_t bytes = w->bytes;
    int is_pair = HEADER + bytes > SLOT && HEADER + bytes <= PAIR, polls = 0;
    char header[HEADER], *slot = bytes_of(ring, end->slot);
    while (__atomic_load_n(word_of(ring, end->slot), __ATOMIC_ACQUIRE) != end->slot + 1) {
        if (++polls > EARLY_POLLS) __builtin_prefetch(ring->pairs[end->slot % SLOTS / 2].bytes + SLOT);
        bench_pause();
    }
    __builtin_prefetch(bytes_of(ring, end->slot + READ_AHEAD));
    if (is_pair) __builtin_prefetch(slot + SLOT);
    memcpy(header, slot, HEADER);
    if (HEADER + bytes <= PAIR) {
        memcpy(w->in, slot + HEADER, bytes);
    } else {
        size_t at;
        memcpy(&at, header + 8, sizeof at);
        for (size_t done = 0; is_in_halves(w) && done < bytes;) {
            long there = __atomic_load_n(&ring->filled.value, __ATOMIC_ACQUIRE) - end->filled;
            size_t more = (size_t)there > bytes - done ? bytes - done : (size_t)there;
            memcpy(w->in + done, ring->lines + at + done, more);
            end->filled += (long)more;
            done += more;
        }
        if (!is_in_halves(w)) memcpy(w->in, ring->lines + at, bytes);
    }
    __asm__ volatile("" ::"r"(w->in), "r"(header) : "memory");
    end->slot += 1 + is_pair;
    end->packets++;
    if ((size_t)(end->packets - end->told) * bytes >= FIRST / 2) {
        end->told = end->packets;
        __atomic_store_n(&ring->read.value, end->told, __ATOMIC_RELEASE);
    }
}

static void to_and_fro(void *context, int repetitions)
{
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) send_one(context);
        receive_one(context);
        if (bench_rank == 1) send_one(context);
    }
}

static void in_row(void *context, int repetitions)
{
    struct way *w = context;
    size_t bytes = w->bytes;
    for (int i = 0; i < repetitions; i++) {
        for (int packet = 0; packet < WINDOW; packet++) {
            if (bench_rank == 0) send_one(w);
            else receive_one(w);
        }
        w->bytes = ANSWER;
        if (bench_rank == 0) receive_one(w);
        else send_one(w);
        w->bytes = bytes;
    }
}

static void begin(struct ring *rings, struct way *w)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench_rank == 0) memset(rings, 0, 2 * sizeof *rings);
    MPI_Barrier(MPI_COMM_WORLD);
    w->sent = w->received = (struct end){0};
    past_begin(&w->past);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8, 64, 256, 1 << 10, 2 << 10, 4 << 10, 8 << 10};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct ring *rings;
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? 2 * sizeof *rings : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &rings, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &rings);
    char *out = bench_buffer(SHORT * 4), *in = bench_buffer(SHORT * 4);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct way w = {&rings[bench_rank], &rings[1 - bench_rank], {0}, {0}, out, in, sizes[i], 1, {0}};
        begin(rings, &w);
        if (is_in_halves(&w)) to_and_fro(&w, past_turns(w.bytes));
        bench_result("packet", w.bytes, bench_measure(to_and_fro, &w) / 2 * 1e6, "us");
        struct past past = w.past;
        begin(rings, &w);
        w.past = past;
        w.by_turns = 0;
        bench_result("packets_in_row", w.bytes, bench_measure(in_row, &w) / WINDOW * 1e6, "us");
    }
    MPI_Win_free(&window);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
