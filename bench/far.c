/* Memory of each NUMA node from a CPU of each, by one rank. The figures' names end in the CPU's node and the
 * memory's.
 *
 *   far_latency    a load that waits for the one before: microseconds
 *   far_copy       what is in no cache, into memory of the CPU's node: GB/s
 *   far_hot_copy   the same bytes again and again: GB/s
 *
 * Usage: far NODE:CPU [NODE:CPU …]. A node that memory cannot be had of, or a CPU that may not be used, is left
 * out. */
#include "bench.h"

#include <sys/syscall.h>

#define LINES_APART ((size_t)256) /* loads so far apart are not prefetched together */
#define COPY_BYTES ((size_t)64 << 10)
#define LOADS 1000
#define NODES_MAX 1024
#define BIND 2 /* MPOL_BIND */
#define WORD_BITS (8 * sizeof(long))

struct walk { char *memory, *near; size_t span, at; void **next; };

/* Touched memory of a node; NULL where it cannot be had. */
static char *memory_of(int node, size_t bytes)
{
    unsigned long nodes[NODES_MAX / WORD_BITS] = {0};
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || node < 0 || node >= NODES_MAX) return NULL;
    nodes[(size_t)node / WORD_BITS] |= 1ul << (size_t)node % WORD_BITS;
    if (syscall(SYS_mbind, memory, bytes, BIND, nodes, NODES_MAX, 0)) {
        munmap(memory, bytes);
        return NULL;
    }
    madvise(memory, bytes, MADV_HUGEPAGE); /* that it is not the page tables which are measured */
    memset(memory, 1, bytes);
    return memory;
}

/* Makes a circle through all lines in no order (S. Sattolo, 1986). */
static void **circle(char *memory, size_t span)
{
    size_t count = span / LINES_APART;
    unsigned long random = 88172645463325252ul;
    for (size_t i = 0; i < count; i++) *(void **)(memory + i * LINES_APART) = memory + i * LINES_APART;
    for (size_t i = count - 1; i > 0; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17; /* G. Marsaglia, 2003 */
        void **a = (void **)(memory + i * LINES_APART), **b = (void **)(memory + random % i * LINES_APART);
        void *next = *a;
        *a = *b, *b = next;
    }
    return (void **)memory;
}

static void load(void *context, int repetitions)
{
    struct walk *w = context;
    for (long i = 0; i < (long)repetitions * LOADS; i++) w->next = *w->next;
    __asm__ volatile("" ::"r"(w->next));
}

static void copy(void *context, int repetitions)
{
    struct walk *w = context;
    for (int i = 0; i < repetitions; i++) {
        memcpy(w->near, w->memory + w->at, COPY_BYTES);
        __asm__ volatile("" ::: "memory");
        w->at += COPY_BYTES;
        if (w->at + COPY_BYTES > w->span) w->at = 0;
    }
}

static void measure(int cpus_node, int memorys_node, char *near, char *memory, size_t span)
{
    char name[64];
    struct walk cold = {memory, near, span, 0, NULL}, hot = {memory, near, COPY_BYTES, 0, NULL};
    snprintf(name, sizeof name, "far_copy_%d_%d", cpus_node, memorys_node);
    bench_result(name, COPY_BYTES, COPY_BYTES / bench_measure_here(copy, &cold) * 1e-9, "GB/s");
    snprintf(name, sizeof name, "far_hot_copy_%d_%d", cpus_node, memorys_node);
    bench_result(name, COPY_BYTES, COPY_BYTES / bench_measure_here(copy, &hot) * 1e-9, "GB/s");
    struct walk loads = {memory, near, span, 0, circle(memory, span)};
    snprintf(name, sizeof name, "far_latency_%d_%d", cpus_node, memorys_node);
    bench_result(name, span, bench_measure_here(load, &loads) / LOADS * 1e6, "us");
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    size_t span = bench_uncached_span();
    for (int m = 1; m < argc; m++) {
        int memorys_node = atoi(argv[m]);
        char *memory = memory_of(memorys_node, span);
        for (int c = 1; c < argc && memory; c++) {
            int node, cpu;
            cpu_set_t one;
            if (sscanf(argv[c], "%d:%d", &node, &cpu) != 2) continue;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            char *near = sched_setaffinity(0, sizeof one, &one) ? NULL : memory_of(node, COPY_BYTES);
            if (!near) continue;
            measure(node, memorys_node, near, memory, span);
            munmap(near, COPY_BYTES);
        }
        if (memory) munmap(memory, span);
    }
    MPI_Finalize();
    return 0;
}
