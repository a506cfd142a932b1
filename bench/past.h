/* How the library's shared memory copies long packets into memory that another rank reads.
 *
 * On AMD's processors through the caches or past them: past them where the writer takes more than 2.5 times
 * as long through them (`shm/ring_manner.rs`). And in pieces, the next one copied in while one is copied out
 * (`shm/processor.rs`, `shm/ring_sender.rs`, whose tests compare the lengths defined here with theirs). */
#include "bench.h"
#include <stdint.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define TRIES 64
/* Shortest packets in pieces, and the shortest and the longest piece, which is half of a packet else; longer
 * pieces of packets that take bulk lines. KiB. */
#define PIECES_FROM_KIB 10
#define PIECE_MIN_KIB 4
#define PIECE_MAX_KIB 4
#define BULK_FROM_KIB 32 /* above this */
#define BULK_PIECE_KIB 32
/* On AMD's processors, where bulk lines are as the others; and past the caches. */
#define AMD_PIECES_FROM_KIB 4
#define AMD_PIECE_MIN_KIB 2
#define AMD_PIECE_MAX_KIB 4
#define ZEN_5_PIECE_MIN_KIB 8
#define ZEN_5_PIECE_MAX_KIB 16
#define ZEN_5_LOOP_OUT_ABOVE_KIB 128 /* what is not in blocks */
#define EIGHTH_MAX_KIB 16 /* where it is an eighth of the packet */
#define PAST_PIECES_ABOVE_KIB 8 /* in blocks, too */
#define PAST_PIECE_KIB 16
/* Longest payload that takes no block, B; longer ones than these neither, but on AMD's processors; and what
 * each rank of two has of blocks at first. */
#define NO_BLOCK_BYTES 512
#define NO_BLOCK_ABOVE_KIB 16
#define BLOCKS 8
#define BLOCK_BYTES ((size_t)(AMD_PACKET_KIB + 16) << 10)
/* The longest packet where two ranks are on a host, and on AMD's processors; where data begin in a block. */
#define PACKET_KIB 128
#define AMD_PACKET_KIB 512
#define BLOCK_BEGIN_KIB 2
/* On AMD's processors memory from this length on is copied by a loop, and since Zen 5 what is longer than the
 * other with `rep movsb` (`buffer/copy.rs` of the core). */
#define LOOP_FROM_KIB 2
#define LOOP_TO_KIB 4
/* So much is written before it is tried: what the other rank has not read yet is written quickly. */
#define BEFORE ((size_t)4 << 20)

/* Bytes before the trials and messages of trials left, what these took by each way, seconds a byte; whether
 * the message goes past the caches, and those after the trials. */
struct past { size_t before; int tries, goes, is; double took[2][TRIES / 2]; };

static inline int is_amd(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd");
#else
    return 0;
#endif
}

/* Whether it is since Zen 5, AMD's family 0x1a. A hypervisor is asked once: that takes microseconds. */
static inline int is_zen_5(void)
{
#if defined(__x86_64__)
    static int is = -1;
    unsigned a, b, c, d;
    if (is < 0) is = is_amd() && __get_cpuid(1, &a, &b, &c, &d) && (a >> 8 & 15) + (a >> 20 & 255) >= 0x1a;
    return is;
#else
    return 0;
#endif
}

static inline size_t packet_max(void)
{
    return (size_t)(is_amd() ? AMD_PACKET_KIB : PACKET_KIB) << 10;
}

static inline int takes_block(size_t bytes)
{
    return bytes > NO_BLOCK_BYTES && (is_amd() || bytes <= (size_t)NO_BLOCK_ABOVE_KIB << 10);
}

/* Whether there are stores past the caches. */
static inline int has_past(void)
{
#if defined(__x86_64__)
    return 1;
#else
    return 0;
#endif
}

static inline void past_begin(struct past *past)
{
    *past = (struct past){BEFORE, is_amd() ? TRIES : 0, 0, 0, {{0}}};
}

/* The pieces in which a packet of so many bytes goes, bytes; 0: it goes whole. */
static inline size_t piece_of(const struct past *past, size_t bytes, int in_block)
{
    const size_t kib = 1024;
    if (in_block && bytes <= PAST_PIECES_ABOVE_KIB * kib) return 0;
    if (past->goes && !in_block) return bytes <= PAST_PIECES_ABOVE_KIB * kib ? 0 : PAST_PIECE_KIB * kib;
    if (bytes < (is_amd() ? AMD_PIECES_FROM_KIB : PIECES_FROM_KIB) * kib) return 0;
    if (!is_amd() && bytes > BULK_FROM_KIB * kib) return BULK_PIECE_KIB * kib;
    size_t least = (is_amd() ? AMD_PIECE_MIN_KIB : PIECE_MIN_KIB) * kib, half = bytes / 2;
    size_t most = (is_amd() ? AMD_PIECE_MAX_KIB : PIECE_MAX_KIB) * kib;
    if (is_zen_5()) least = ZEN_5_PIECE_MIN_KIB * kib;
    if (is_zen_5()) most = ZEN_5_PIECE_MAX_KIB * kib;
    half = half < least ? least : half > most ? most : half;
    size_t eighth = bytes / 8 < EIGHTH_MAX_KIB * kib ? bytes / 8 : EIGHTH_MAX_KIB * kib;
    return eighth > half ? eighth : half;
}

/* After the trials. */
static inline void tell_piece(const struct past *past, size_t bytes, int in_block)
{
    struct past held = *past;
    held.goes = past->is;
    size_t piece = piece_of(&held, bytes, in_block);
    bench_near_probe();
    if (piece == 0 || piece > bytes) piece = bytes;
    bench_result(in_block ? "block_piece" : "piece", bytes, (double)piece / 1024, "KiB");
}

#if defined(__x86_64__)
/* Four variables: an array of them GCC keeps in memory with `-O2`, which took three times as long. */
__attribute__((target("avx"), unused)) static void copy_in_loop(char *to, const char *from, size_t bytes)
{
    size_t word = sizeof(__m256i), round = 4 * word, at = word - (uintptr_t)to % word;
    _mm256_storeu_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
    for (size_t last = bytes - word; last >= bytes - round; last -= word)
        _mm256_storeu_si256((__m256i *)(to + last), _mm256_loadu_si256((const __m256i *)(from + last)));
    for (; at + round <= bytes; at += round) {
        const __m256i *in = (const __m256i *)(from + at);
        __m256i *out = (__m256i *)(to + at);
        __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
        __m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);
        _mm256_store_si256(out, a);
        _mm256_store_si256(out + 1, b);
        _mm256_store_si256(out + 2, c);
        _mm256_store_si256(out + 3, d);
    }
}

__attribute__((target("avx512f"), unused))
static void copy_in_wide_loop(char *to, const char *from, size_t bytes)
{
    size_t word = sizeof(__m512i), round = 4 * word, at = word - (uintptr_t)to % word;
    _mm512_storeu_si512(to, _mm512_loadu_si512(from));
    for (size_t last = bytes - word; last >= bytes - round; last -= word)
        _mm512_storeu_si512(to + last, _mm512_loadu_si512(from + last));
    for (; at + round <= bytes; at += round) {
        const char *in = from + at;
        char *out = to + at;
        __m512i a = _mm512_loadu_si512(in), b = _mm512_loadu_si512(in + word);
        __m512i c = _mm512_loadu_si512(in + 2 * word), d = _mm512_loadu_si512(in + 3 * word);
        _mm512_storeu_si512(out, a);
        _mm512_storeu_si512(out + word, b);
        _mm512_storeu_si512(out + 2 * word, c);
        _mm512_storeu_si512(out + 3 * word, d);
    }
}
#endif

/* As the library copies memory: with `rep movsb` where that suits the processor, if `may_rep`. */
static inline void copy_by(int may_rep, char *to, const char *from, size_t bytes)
{
#if defined(__x86_64__)
    static int loops = -1, wide = -1;
    if (wide < 0) wide = is_zen_5() && __builtin_cpu_supports("avx512f");
    if (loops < 0) loops = is_amd() && !is_zen_5() && __builtin_cpu_supports("avx");
    if (bytes >= (size_t)LOOP_FROM_KIB << 10) {
        int is_short = bytes <= (size_t)LOOP_TO_KIB << 10;
        if (loops) return copy_in_loop(to, from, bytes);
        if (wide && (is_short || !may_rep)) return copy_in_wide_loop(to, from, bytes);
        if (wide) {
            __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
            return;
        }
    }
#endif
    (void)may_rep;
    memcpy(to, from, bytes);
}

static inline void copy_memory(char *to, const char *from, size_t bytes) { copy_by(1, to, from, bytes); }

/* `to` begins a line, and `bytes` are whole lines. */
static inline void past_copy_by(int is_past, char *to, const char *from, size_t bytes)
{
#if defined(__x86_64__)
    if (is_past) {
        for (size_t at = 0; at < bytes; at += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + at), _mm_loadu_si128((const __m128i *)(from + at)));
        _mm_sfence();
        return;
    }
#endif
    copy_memory(to, from, bytes);
}

/* Before each message. */
static inline void past_next(struct past *past)
{
    if (past->before == 0 && past->tries > 0 && --past->tries == 0)
        past->is = bench_median(past->took[0], TRIES / 2) > 2.5 * bench_median(past->took[1], TRIES / 2);
    past->goes = past->before == 0 && past->tries > 0 ? past->tries % 2 : past->is;
}

static inline void past_copy(struct past *past, char *to, const char *from, size_t bytes)
{
    double began = past->tries > 0 ? MPI_Wtime() : 0;
    past_copy_by(past->goes, to, from, bytes);
    double took = past->tries > 0 ? MPI_Wtime() - began : 0;
    if (past->tries > 0) past->took[past->goes][(past->tries - 1) / 2] = took / (double)bytes;
    past->before -= bytes < past->before ? bytes : past->before;
}

#define PAGE ((size_t)4096)
#define LINE ((size_t)64)

/* Blocks of so many pages side by side, a line of each in turn. How many bytes these are. */
static inline size_t copy_pages(char *to, const char *from, size_t bytes, size_t pages)
{
    size_t whole = bytes / (pages * PAGE) * (pages * PAGE);
    for (size_t block = 0; block < whole; block += pages * PAGE)
        for (size_t line = block; line < block + PAGE; line += LINE)
            for (size_t at = line; at < line + pages * PAGE; at += PAGE) memcpy(to + at, from + at, LINE);
    return whole;
}

/* What another rank has written of a packet in lines; not by pages on AMD's processors. */
static inline void copy_out(char *to, const char *from, size_t bytes, size_t packet_bytes)
{
    size_t done = is_amd() ? 0 : copy_pages(to, from, bytes, 8);
    if (!is_amd()) done += copy_pages(to + done, from + done, bytes - done, 4);
    copy_by(packet_bytes <= (size_t)ZEN_5_LOOP_OUT_ABOVE_KIB << 10, to + done, from + done, bytes - done);
}

/* So many turns of so many bytes end the trials. */
static inline int past_turns(size_t bytes) { return (int)(BEFORE / bytes) + TRIES + 1; }
