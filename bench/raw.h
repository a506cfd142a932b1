/* What this machine can do without any message-passing library: the limits the tables are read against.
 *
 * Both sides of a pair run the same code on one shared mapping; `side` is 0 or 1. Each side should be pinned to a
 * CPU of its own. Times are seconds. */
#ifndef AYATORI_RAW_H
#define AYATORI_RAW_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include"
#endif
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define RAW_BLOCK_BYTES_MAX (4u << 20)

/* One line per flag: the two directions must not share one. */
struct raw_line { _Alignas(128) atomic_uint value; };
struct raw_shared {
    struct raw_line meet[2], ball[2];
    _Alignas(4096) char block[2][RAW_BLOCK_BYTES_MAX];
};

static inline double raw_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Spins; after a long while yields, so that a pair on one CPU also ends. No pause instruction: on recent Xeons it
 * costs 140 cycles, as much as the line's own journey. */
static inline void raw_wait_for(atomic_uint *place, unsigned wanted)
{
    for (unsigned turns = 0; atomic_load_explicit(place, memory_order_acquire) != wanted; turns++) {
        if (turns > 100000) sched_yield();
    }
}

static inline void raw_meet(struct raw_shared *s, int side)
{
    unsigned mine = atomic_fetch_add(&s->meet[side].value, 1) + 1;
    while (atomic_load(&s->meet[1 - side].value) < mine) sched_yield();
}

/* One cache line per direction, one store and one load a turn: seconds one way. */
static inline double raw_line_pingpong_s(struct raw_shared *s, int side, unsigned turns)
{
    atomic_store(&s->ball[side].value, 0);
    raw_meet(s, side);
    double begin = raw_now_s();
    for (unsigned i = 1; i <= turns; i++) {
        if (side == 0) {
            atomic_store_explicit(&s->ball[0].value, i, memory_order_release);
            raw_wait_for(&s->ball[1].value, i);
        } else {
            raw_wait_for(&s->ball[0].value, i);
            atomic_store_explicit(&s->ball[1].value, i, memory_order_release);
        }
    }
    double seconds = (raw_now_s() - begin) / turns / 2;
    raw_meet(s, side);
    return seconds;
}

/* Ping-pong of a block through the mapping: the sender copies in, the receiver copies out. Seconds one way. */
static inline double raw_block_pingpong_s(struct raw_shared *s, int side, char *mine, size_t bytes, unsigned turns)
{
    atomic_store(&s->ball[side].value, 0);
    raw_meet(s, side);
    double begin = raw_now_s();
    for (unsigned i = 1; i <= turns; i++) {
        if (side == 1) {
            raw_wait_for(&s->ball[0].value, i);
            memcpy(mine, s->block[0], bytes);
        }
        memcpy(s->block[side], mine, bytes);
        atomic_store_explicit(&s->ball[side].value, i, memory_order_release);
        if (side == 0) {
            raw_wait_for(&s->ball[1].value, i);
            memcpy(mine, s->block[1], bytes);
        }
    }
    double seconds = (raw_now_s() - begin) / turns / 2;
    raw_meet(s, side);
    return seconds;
}

/* Ping-pong where the receiver reads the sender's private memory: one copy, by the kernel. Seconds one way, or
 * -errno where the kernel refuses. `theirs` is the address of the other side's block. */
static inline double raw_readv_pingpong_s(struct raw_shared *s, int side, pid_t other, char *mine, char *theirs,
                                          size_t bytes, unsigned turns)
{
    struct iovec local = {mine, bytes}, remote = {theirs, bytes};
    double refused = 0;
    atomic_store(&s->ball[side].value, 0);
    raw_meet(s, side);
    double begin = raw_now_s();
    for (unsigned i = 1; i <= turns; i++)
        for (int who = 0; who < 2; who++) {
            if (who == side)
                atomic_store_explicit(&s->ball[who].value, i, memory_order_release);
            else {
                raw_wait_for(&s->ball[who].value, i);
                if (process_vm_readv(other, &local, 1, &remote, 1, 0) != (ssize_t)bytes)
                    refused = -(double)(errno ? errno : EIO);
            }
        }
    double seconds = (raw_now_s() - begin) / turns / 2;
    raw_meet(s, side);
    return refused < 0 ? refused : seconds;
}

/* memcpy from one private block to another, cache-hot where it fits: seconds a copy. */
static inline double raw_memcpy_s(char *to, const char *from, size_t bytes, unsigned turns)
{
    memcpy(to, from, bytes);
    double begin = raw_now_s();
    for (unsigned i = 0; i < turns; i++) {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
    }
    return (raw_now_s() - begin) / turns;
}

/* Reads `bytes` at `address` of process `pid`: seconds a call, or -errno where the kernel refuses. */
static inline double raw_process_vm_readv_s(pid_t pid, void *address, char *to, size_t bytes, unsigned turns)
{
    struct iovec local = {to, bytes}, remote = {address, bytes};
    double begin = 0;
    for (unsigned i = 0; i <= turns; i++) {
        if (i == 1) begin = raw_now_s(); /* the first one faults pages in */
        if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)bytes) return -(double)(errno ? errno : EIO);
    }
    return (raw_now_s() - begin) / turns;
}

/* Lets any process of this user read our memory, as Yama's ptrace_scope 1 would refuse by default. */
static inline void raw_allow_reading(void)
{
#ifdef PR_SET_PTRACER
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

/* Turns that take about `seconds` when one costs `guess_s`. */
static inline unsigned raw_turns(double seconds, double guess_s)
{
    double turns = seconds / guess_s;
    return turns < 10 ? 10 : turns > 1e6 ? 1000000u : (unsigned)turns;
}

static inline int raw_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double raw_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, raw_compare);
    return values[count / 2];
}

#endif
