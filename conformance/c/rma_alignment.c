/* Memory that the library makes is aligned for every type, and as mpi_minimum_memory_alignment asks (MPI-5.0
 * §9.2, §12.2): contiguous shared memory at its beginning, all other at each process. */
#include "check.h"

enum { USUAL = 16 };

static void is_aligned(const char *what, const void *memory, long alignment)
{
    CHECK((uintptr_t)memory % (uintptr_t)alignment == 0, "%s: %p is no multiple of %ld", what, memory,
          alignment);
}

static void is_shown(MPI_Win win, const char *wanted)
{
    MPI_Info used;
    char value[32] = "";
    int length = sizeof value, flag = 0;
    OK(MPI_Win_get_info(win, &used));
    OK(MPI_Info_get_string(used, "mpi_minimum_memory_alignment", &length, value, &flag));
    int is_right = flag == (wanted != NULL) && (!flag || strcmp(value, wanted) == 0);
    CHECK(is_right, "the window shows %s, not %s", flag ? value : "none", wanted ? wanted : "none");
    OK(MPI_Info_free(&used));
}

/* Every byte is there, and no other member's. */
static void is_own(const char *what, unsigned char *memory, size_t bytes, MPI_Comm comm, MPI_Win win)
{
    OK(MPI_Win_fence(0, win));
    pattern_fill(memory, bytes, (uint32_t)check_rank);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Barrier(comm));
    long wrong = pattern_wrong(memory, bytes, (uint32_t)check_rank);
    CHECK(wrong < 0, "%s: byte %ld is another's", what, wrong);
}

static void allocated(MPI_Info info, const char *asked, long alignment)
{
    unsigned char *memory, *other;
    MPI_Win win;
    size_t bytes = 1000 + 7 * (size_t)check_rank;
    MPI_Aint size;
    int unit;
    OK(MPI_Win_allocate((MPI_Aint)bytes, 1, info, MPI_COMM_WORLD, &memory, &win));
    is_aligned("MPI_Win_allocate", memory, alignment);
    is_shown(win, asked);
    is_own("MPI_Win_allocate", memory, bytes, MPI_COMM_WORLD, win);
    OK(MPI_Win_shared_query(win, check_rank, &size, &unit, &other));
    CHECK(size == (MPI_Aint)bytes && other == memory, "%ld bytes at %p, asked for at %p", (long)size,
          (void *)other,
          (void *)memory);
    int target = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    unsigned char one = (unsigned char)(check_rank + 1);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&one, 1, MPI_BYTE, target, 999, 1, MPI_BYTE, win));
    OK(MPI_Win_fence(0, win));
    CHECK(memory[999] == (unsigned char)(from + 1), "rank %d has put %d", from, memory[999]);
    OK(MPI_Win_free(&win));
}

static void shared(MPI_Info info, const char *asked, long alignment, int are_apart)
{
    unsigned char *memory, *base, *end = NULL;
    MPI_Comm host;
    MPI_Win win;
    int rank, size, unit;
    MPI_Aint bytes;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    MPI_Comm_rank(host, &rank);
    MPI_Comm_size(host, &size);
    /* The first member has nothing, where there is another. */
    size_t own = size > 1 ? 1001 * (size_t)rank : 1001;
    OK(MPI_Win_allocate_shared((MPI_Aint)own, 1, info, host, &memory, &win));
    is_shown(win, asked);
    if (own && are_apart) is_aligned("parts of shared memory", memory, alignment);
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &base));
    if (rank == (size > 1)) is_aligned("shared memory", memory, alignment);
    if (rank == (size > 1))
        CHECK(base == memory, "the first memory is at %p, not %p", (void *)base, (void *)memory);
    if (own) is_own("shared memory", memory, own, host, win);
    else is_own("no shared memory", NULL, 0, host, win);
    OK(MPI_Barrier(host));
    for (int other = size > 1; other < size; other++) {
        OK(MPI_Win_shared_query(win, other, &bytes, &unit, &base));
        if (!are_apart && end) CHECK(base == end, "the memory of %d does not follow", other);
        long wrong = pattern_wrong(base, (size_t)bytes, (uint32_t)(check_rank - rank + other));
        CHECK(wrong < 0, "byte %ld of %d is wrong", wrong, other);
        end = base + bytes;
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&host));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *text;
        long alignment;
    } asked[] = {{"8", 8}, {"64", 64}, {"4096", 4096}, {"65536", 65536}, {"2097152", 2097152}};
    MPI_Info info;
    check_start(&argc, &argv);
    allocated(MPI_INFO_NULL, NULL, USUAL);
    shared(MPI_INFO_NULL, NULL, USUAL, 0);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", asked[i].text));
        allocated(info, asked[i].text, asked[i].alignment);
        shared(info, asked[i].text, asked[i].alignment, 0);
        OK(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
        shared(info, asked[i].text, asked[i].alignment, 1);
        OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "12"));
        allocated(info, NULL, USUAL);
        OK(MPI_Info_free(&info));
    }
    return check_end();
}
