/* What packets take through memory that two ranks share, without messages: microseconds.
 *
 *   packet           one way, by turns
 *   packets_in_row   each of 16 one right after another, which are answered by one of 8 B
 *   block_packet     one way, by turns, in a block
 *
 *   piece            the pieces in which such a packet goes, KiB; whole ones are one piece
 *   block_piece      the same in a block
 *
 * From the sender's memory into a ring and from there into the receiver's, as the library's shared memory
 * (`ayatori_devices::shm`, ring): up to 32 B lie in a line with a header and the word that the receiver
 * waits for, up to 88 B in two, of which the receiver asks for the second one while it waits, and more in
 * lines of their own. The sender fetches the next packet's lines back when it has written this one. On AMD's
 * processors packets of 512 B to 2 KiB go back to the first 8 KiB of the lines once these have been read,
 * shorter ones go round all lines, and longer ones go round 2 MiB, of which lines are fetched only while the
 * sender has nothing to read. Longer ones go in pieces, each copied out while the next one is copied in, or
 * past the caches (`past.h`). Or packets of more than 512 B are written into the block that their sender has
 * read the last one from. Who waits pauses between two looks. */
#include "past.h"

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
/* Longer ones on AMD's processors. */
#define MORE_LINES ((size_t)2 << 20)
#define LONGEST ((size_t)32 << 10)
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
    char block[(BLOCK_BEGIN_KIB << 10) + LONGEST] __attribute__((aligned(4096)));
} __attribute__((aligned(4096)));
/* What a slot has behind the header: where the lines begin, and whether they come in pieces. */
struct head { char header[HEADER]; size_t at; int is_in_pieces; };
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
    char *unfetched;
    /* Where packets go whose sender has read the last one there; none: in lines. */
    char *block;
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

/* Where a packet's lines begin. With `ring`, the sender asks what the receiver has read where it must. */
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
    while (ring && (size_t)(end->packets - end->known + 1) * len > most)
        end->known = __atomic_load_n(&ring->read.value, __ATOMIC_ACQUIRE);
    if (end->at + len > most) end->at = 0;
    size_t at = end->at;
    end->at += len;
    return at;
}

static int goes_round_more(size_t bytes) { return is_amd() && bytes > SHORT; }

static void fetch(char *lines, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += LINE) fetch_to_write(lines + line);
}

/* The lines of the next packet. */
static void fetch_next(struct way *w)
{
    struct end next = w->sent;
    char *lines = w->to->lines + place_of(&next, w->bytes, NULL);
    if (!goes_round_more(w->bytes)) fetch(lines, w->bytes);
    else if (!w->past.is) w->unfetched = lines;
}

static void fetch_rest(struct way *w)
{
    if (w->unfetched) fetch(w->unfetched, w->bytes);
    w->unfetched = NULL;
}

static void write_in_pieces(struct way *w, char *to, size_t piece)
{
    for (size_t done = 0; done < w->bytes; done += piece) {
        size_t more = piece < w->bytes - done ? piece : w->bytes - done;
        if (w->block) copy_memory(to + done, w->out + done, more);
        else past_copy(&w->past, to + done, w->out + done, more);
        __atomic_store_n(&w->to->filled.value, w->to->filled.value + (long)more, __ATOMIC_RELEASE);
    }
}

static void send_one(struct way *w)
{
    struct ring *ring = w->to;
    struct end *end = &w->sent;
    size_t bytes = w->bytes, in_first = bytes < SLOT - HEADER ? bytes : SLOT - HEADER;
    int is_pair = HEADER + bytes > SLOT && HEADER + bytes <= PAIR, is_long = HEADER + bytes > PAIR;
    char *slot = bytes_of(ring, end->slot), *lines = NULL;
    struct head head = {{(char)end->slot}, 0, 0};
    if (goes_round_more(bytes) && !w->block) past_next(&w->past);
    size_t piece = is_long ? piece_of(&w->past, bytes, w->block != NULL) : 0;
    /* Who has read everything that came back knows that all was read before that was sent. */
    if (w->by_turns) end->known = end->packets;
    if (is_long) {
        head.at = place_of(end, bytes, ring);
        head.is_in_pieces = piece > 0;
        lines = w->block ? w->block : ring->lines + head.at;
        if (!piece && (w->block || !goes_round_more(bytes))) copy_memory(lines, w->out, bytes);
        else if (!piece) past_copy(&w->past, lines, w->out, bytes);
        memcpy(slot, &head, sizeof head);
    } else {
        if (is_pair) memcpy(slot + SLOT, w->out + in_first, bytes - in_first); /* not while it is asked for */
        memcpy(slot, head.header, HEADER);
        memcpy(slot + HEADER, w->out, in_first);
    }
    __atomic_store_n(word_of(ring, end->slot), end->slot + 1, __ATOMIC_RELEASE);
    if (piece) write_in_pieces(w, lines, piece);
    end->slot += 1 + is_pair;
    end->packets++;
    fetch_to_write(bytes_of(ring, end->slot + WRITE_AHEAD));
    if (is_pair) fetch_to_write(bytes_of(ring, end->slot + WRITE_AHEAD + 1));
    if (is_long && !w->block) fetch_next(w);
}

/* What is there of a packet in pieces, until all has come. */
static void read_in_pieces(struct way *w, const char *lines)
{
    long begin = w->received.filled, there;
    for (size_t done = 0; done < w->bytes; done = (size_t)there) {
        there = __atomic_load_n(&w->from->filled.value, __ATOMIC_ACQUIRE) - begin;
        if (there > (long)w->bytes) there = (long)w->bytes;
        if ((size_t)there == done) bench_pause();
        else if (w->block) copy_memory(w->in + done, lines + done, (size_t)there - done);
        else copy_out(w->in + done, lines + done, (size_t)there - done, w->bytes);
    }
    w->received.filled = begin + (long)w->bytes;
}

static void receive_one(struct way *w)
{
    struct ring *ring = w->from;
    struct end *end = &w->received;
    size_t bytes = w->bytes;
    int is_pair = HEADER + bytes > SLOT && HEADER + bytes <= PAIR, polls = 0;
    char *slot = bytes_of(ring, end->slot);
    struct head head;
    while (__atomic_load_n(word_of(ring, end->slot), __ATOMIC_ACQUIRE) != end->slot + 1) {
        if (++polls > EARLY_POLLS) __builtin_prefetch(ring->pairs[end->slot % SLOTS / 2].bytes + SLOT);
        fetch_rest(w);
        bench_pause();
    }
    __builtin_prefetch(bytes_of(ring, end->slot + READ_AHEAD));
    if (is_pair) __builtin_prefetch(slot + SLOT);
    memcpy(&head, slot, sizeof head);
    if (HEADER + bytes <= PAIR) memcpy(w->in, slot + HEADER, bytes);
    else if (head.is_in_pieces) read_in_pieces(w, w->block ? w->block : ring->lines + head.at);
    else copy_memory(w->in, w->block ? w->block : ring->lines + head.at, bytes);
    __asm__ volatile("" ::"r"(w->in), "r"(&head) : "memory");
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
    /* Those that are compared with predictions, and message.c's. */
    static const size_t sizes[] = {8,       40,      56,      64,      80,       96,       160,      256,
                                   320,     400,     640,     1 << 10, 1536,     2 << 10,  3 << 10,  4 << 10,
                                   6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, LONGEST};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct ring *rings;
    MPI_Win window;
    MPI_Aint bytes = bench_rank == 0 ? 2 * sizeof *rings : 0;
    int unit;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &rings, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, &rings);
    char *out = bench_buffer(LONGEST), *in = bench_buffer(LONGEST);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct way w = {
            &rings[bench_rank], &rings[1 - bench_rank], {0}, {0}, out, in, sizes[i], 1, {0}, NULL, NULL,
        };
        begin(rings, &w);
        if (goes_round_more(w.bytes)) to_and_fro(&w, past_turns(w.bytes));
        bench_result("packet", w.bytes, bench_measure(to_and_fro, &w) / 2 * 1e6, "us");
        struct past past = w.past;
        begin(rings, &w);
        w.past = past;
        w.by_turns = 0;
        bench_result("packets_in_row", w.bytes, bench_measure(in_row, &w) / WINDOW * 1e6, "us");
        if (w.bytes > SHORT) tell_piece(&w.past, w.bytes, 0);
        if (w.bytes == (size_t)8 << 10) tell_piece(&w.past, (size_t)10 << 10, 0);
        /* A short one, too, which the others are compared with. */
        if (w.bytes != ANSWER && !takes_block(w.bytes)) continue;
        begin(rings, &w);
        w.by_turns = 1;
        w.block = rings[0].block + (BLOCK_BEGIN_KIB << 10);
        bench_result("block_packet", w.bytes, bench_measure(to_and_fro, &w) / 2 * 1e6, "us");
        if (w.bytes > NO_BLOCK_BYTES) tell_piece(&w.past, w.bytes, 1);
    }
    MPI_Win_free(&window);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
