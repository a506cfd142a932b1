/* Shared by the conformance programs: checks, patterns, one verdict.
 *
 * A program prints "No Errors" (rank 0, last line) or what failed where, and exits non-zero then. Programs work at any
 * number of ranks from 1 unless CHECK_NEED says otherwise ("Skipped: …" is printed and counts as such). */
#ifndef AYATORI_CHECK_H
#define AYATORI_CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_errors, check_rank, check_size;

__attribute__((format(printf, 3, 4), unused))
static void check_failed(const char *file, int line, const char *format, ...)
{
    if (++check_errors > 10) return; /* the first ones tell */
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "rank %d: %s:%d: %s\n", check_rank, file, line, text);
}

#define CHECK(condition, ...) \
    do { \
        if (!(condition)) check_failed(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* An MPI call that must succeed. */
#define OK(call) \
    do { \
        int code_ = (call); \
        if (code_ != MPI_SUCCESS) check_failed(__FILE__, __LINE__, "%s returned %s", #call, check_error_text(code_)); \
    } while (0)

/* An MPI call that must fail with this class. */
#define FAILS(call, wanted) \
    do { \
        int class_ = MPI_SUCCESS, code_ = (call); \
        MPI_Error_class(code_, &class_); \
        if (class_ != (wanted)) \
            check_failed(__FILE__, __LINE__, "%s returned %s, not %s", #call, check_error_text(code_), #wanted); \
    } while (0)

__attribute__((unused))
static const char *check_error_text(int code)
{
    static char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "unknown code %d", code);
    return text;
}

__attribute__((unused))
static void check_start(int *argc, char ***argv)
{
#ifdef LEVEL
    int provided;
    MPI_Init_thread(argc, argv, LEVEL, &provided);
#else
    MPI_Init(argc, argv);
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
}

#define CHECK_NEED(ranks) \
    do { \
        if (check_size < (ranks)) { \
            if (check_rank == 0) printf("Skipped: needs %d ranks\n", (ranks)); \
            MPI_Finalize(); \
            return 0; \
        } \
    } while (0)

/* Sums the errors of all ranks, prints the verdict, finalizes; the program's exit code. */
__attribute__((unused))
static int check_end(void)
{
    int all = 0;
    fflush(stderr);
    MPI_Allreduce(&check_errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (check_rank == 0) {
        if (all) printf("Found %d errors\n", all);
        else printf("No Errors\n");
        fflush(stdout);
    }
    MPI_Finalize();
    return all != 0;
}

/* Byte `i` of the message that `seed` names: any shift, swap or loss shows. */
static inline unsigned char pattern_byte(uint32_t seed, size_t i)
{
    uint32_t x = seed * 2654435761u ^ (uint32_t)i * 2246822519u;
    return (unsigned char)(x >> 24 ^ x >> 11 ^ x);
}

__attribute__((unused))
static void pattern_fill(void *memory, size_t bytes, uint32_t seed)
{
    unsigned char *p = memory;
    for (size_t i = 0; i < bytes; i++) p[i] = pattern_byte(seed, i);
}

/* The first wrong byte, or -1. */
__attribute__((unused))
static long pattern_wrong(const void *memory, size_t bytes, uint32_t seed)
{
    const unsigned char *p = memory;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != pattern_byte(seed, i)) return (long)i;
    return -1;
}

/* Checks a status: source, tag, byte count. */
#define CHECK_STATUS(status, source, tag, bytes) \
    do { \
        int count_ = -2; \
        MPI_Get_count(&(status), MPI_BYTE, &count_); \
        CHECK((status).MPI_SOURCE == (source), "source %d, not %d", (status).MPI_SOURCE, (int)(source)); \
        CHECK((status).MPI_TAG == (tag), "tag %d, not %d", (status).MPI_TAG, (int)(tag)); \
        CHECK(count_ == (int)(bytes), "count %d, not %d", count_, (int)(bytes)); \
    } while (0)

/* Lengths on both sides of every protocol switch a library is likely to have. */
static const int check_lengths[] = {0,    1,    7,     8,     63,    64,    65,    255,    256,     1000,   1024,
                                    4095, 4096, 8191,  8192,  8193,  16384, 16385, 32768,  65535,   65536,  65537,
                                    100003, 262144, 1048577};
#define CHECK_LENGTHS ((int)(sizeof check_lengths / sizeof *check_lengths))
#define CHECK_LENGTH_MAX 1048577

__attribute__((unused))
static void *check_alloc(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    return memory;
}

#endif
