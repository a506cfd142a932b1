/* Collective operations on data with gaps: one side strided, both, in place, later, again; gaps stay as they are. */
#include "check.h"

enum { BLOCK = 600, STRIDE = 2 }; /* BLOCK ints for each process, every second one */

static MPI_Datatype every_second, vector;
static int all, is_root, *a, *b, *counts, *places;

static void fill(int *memory, int elements, int seed, int is_strided)
{
    for (int i = 0; i < elements * (is_strided ? STRIDE : 1); i++)
        memory[i] = is_strided && i % STRIDE ? -7 : seed + (is_strided ? i / STRIDE : i);
}

static void is(int line, const int *memory, int elements, int seed, int is_strided)
{
    for (int i = 0; i < elements; i++) {
        int at = is_strided ? i * STRIDE : i;
        CHECK(memory[at] == seed + i, "line %d: element %d is %d, not %d", line, i, memory[at], seed + i);
        if (is_strided) CHECK(memory[at + 1] == -7, "line %d: the gap after element %d was touched", line, i);
    }
}

#define IS(...) is(__LINE__, __VA_ARGS__)

struct gapped { int a; char gap[12]; double b; };
static MPI_Datatype gapped;

/* Not commutative: the lower rank's is the first. */
static void first_and_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    struct gapped *a = in, *b = inout;
    CHECK(*type == gapped, "the function got another type");
    for (int i = 0; i < *count; i++) b[i].a = a[i].a, b[i].b += a[i].b;
}

static void reductions(void)
{
    enum { N = 5 };
    struct gapped mine[N], sum[N];
    MPI_Datatype plain;
    MPI_Op op;
    MPI_Request request;
    MPI_Aint at[2] = {0, (char *)&mine->b - (char *)mine};
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, at, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &plain));
    OK(MPI_Type_create_resized(plain, 0, sizeof *mine, &gapped));
    OK(MPI_Type_commit(&gapped));
    OK(MPI_Op_create(first_and_sum, 0, &op));
    for (int form = 0; form < 4; form++) {
        memset(sum, 0x55, sizeof sum), memset(mine, 0x55, sizeof mine);
        for (int i = 0; i < N; i++) mine[i].a = check_rank + 10 * i, mine[i].b = check_rank + 1;
        for (int i = 0; i < N; i++) sum[i].a = check_rank + 10 * i, sum[i].b = check_rank + 1;
        switch (form) {
        case 0: OK(MPI_Allreduce(mine, sum, N, gapped, op, MPI_COMM_WORLD)); break;
        case 1: OK(MPI_Allreduce(MPI_IN_PLACE, sum, N, gapped, op, MPI_COMM_WORLD)); break;
        case 2:
            OK(MPI_Iallreduce(mine, sum, N, gapped, op, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        default: OK(MPI_Scan(mine, sum, N, gapped, op, MPI_COMM_WORLD));
        }
        const int ranks = form == 3 ? check_rank + 1 : check_size;
        for (int i = 0; i < N; i++) {
            CHECK(sum[i].a == 10 * i && sum[i].b == ranks * (ranks + 1) / 2.0, "form %d: element %d is %d, %f", form, i,
                  sum[i].a, sum[i].b);
            for (int g = 0; g < 12; g++) CHECK(sum[i].gap[g] == 0x55, "form %d: a gap of element %d was touched", form, i);
        }
    }
    memset(sum, 0x55, sizeof sum), memset(mine, 0x55, sizeof mine);
    mine[0].a = 3, mine[0].b = 4, sum[0].a = 5, sum[0].b = 6;
    OK(MPI_Reduce_local(mine, sum, 1, gapped, op));
    CHECK(sum[0].a == 3 && sum[0].b == 10 && sum[0].gap[0] == 0x55, "locally %d, %f", sum[0].a, sum[0].b);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&plain));
    OK(MPI_Type_free(&gapped));
}

/* Bcast: strided at odd ranks, contiguous at even ones. */
static void broadcasts(void)
{
    MPI_Request request;
    for (int form = 0; form < 3; form++) {
        const int odd = check_rank % 2;
        MPI_Datatype type = odd ? vector : MPI_INT;
        fill(a, BLOCK, is_root ? 40 + form : -1000, odd);
        if (form == 0) OK(MPI_Bcast(a, odd ? 1 : BLOCK, type, 0, MPI_COMM_WORLD));
        if (form == 1) {
            OK(MPI_Ibcast(a, odd ? 1 : BLOCK, type, 0, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        if (form == 2) {
            OK(MPI_Bcast_init(a, odd ? 1 : BLOCK, type, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            for (int round = 0; round < 3; round++) {
                fill(a, BLOCK, is_root ? 40 + form + round : -1000, odd);
                OK(MPI_Start(&request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                IS(a, BLOCK, 40 + form + round, odd);
            }
            OK(MPI_Request_free(&request));
            continue;
        }
        IS(a, BLOCK, 40 + form, odd);
    }
}

/* Gather and scatter, strided at the root; in place there, too. */
static void gathers_and_scatters(void)
{
    MPI_Request request;
    fill(a, BLOCK, check_rank * BLOCK, 0), fill(b, all, -9, 1);
    OK(MPI_Gather(a, BLOCK, MPI_INT, b, BLOCK, every_second, 0, MPI_COMM_WORLD));
    if (is_root) IS(b, all, 0, 1);
    fill(b, all, -9, 1);
    if (is_root) fill(b, BLOCK, 0, 1);
    OK(MPI_Gather(is_root ? MPI_IN_PLACE : a, BLOCK, MPI_INT, b, BLOCK, every_second, 0, MPI_COMM_WORLD));
    if (is_root) IS(b, all, 0, 1);
    fill(b, all, -9, 1);
    OK(MPI_Igatherv(a, BLOCK, MPI_INT, b, counts, places, every_second, 0, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (is_root) IS(b, all, 0, 1);
    fill(b, all, 5, 1), fill(a, BLOCK, -1, 1);
    OK(MPI_Scatter(b, 1, vector, a, 1, vector, 0, MPI_COMM_WORLD));
    if (is_root) IS(a, BLOCK, 5, 1);
    fill(a, BLOCK, -1, 1);
    OK(MPI_Scatterv(b, counts, places, every_second, a, BLOCK, every_second, 0, MPI_COMM_WORLD));
    IS(a, BLOCK, 5 + check_rank * BLOCK, 1);
}

/* Allgather and alltoall, in place as well. */
static void all_to_all(void)
{
    MPI_Request request;
    fill(a, BLOCK, check_rank * BLOCK, 1), fill(b, all, -9, 1);
    OK(MPI_Allgather(a, BLOCK, every_second, b, BLOCK, every_second, MPI_COMM_WORLD));
    IS(b, all, 0, 1);
    fill(b, all, -9, 1);
    for (int i = 0; i < BLOCK; i++) b[(check_rank * BLOCK + i) * STRIDE] = check_rank * BLOCK + i;
    OK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, b, BLOCK, every_second, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    IS(b, all, 0, 1);
    fill(b, all, -9, 1);
    OK(MPI_Allgatherv(a, BLOCK, every_second, b, counts, places, every_second, MPI_COMM_WORLD));
    IS(b, all, 0, 1);
    for (int r = 0; r < check_size; r++) fill(a + r * BLOCK, BLOCK, check_rank * BLOCK, 0);
    fill(b, all, -9, 1);
    OK(MPI_Alltoall(a, BLOCK, MPI_INT, b, BLOCK, every_second, MPI_COMM_WORLD));
    IS(b, all, 0, 1);
    fill(b, all, -9, 1);
    OK(MPI_Alltoallv(a, counts, places, MPI_INT, b, counts, places, every_second, MPI_COMM_WORLD));
    IS(b, all, 0, 1);
    fill(b, all, -9, 1);
    for (int i = 0; i < all; i++) b[i * STRIDE] = check_rank * BLOCK + i % BLOCK;
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, b, BLOCK, every_second, MPI_COMM_WORLD));
    IS(b, all, 0, 1);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    OK(MPI_Type_create_resized(MPI_INT, 0, STRIDE * sizeof(int), &every_second));
    OK(MPI_Type_commit(&every_second));
    OK(MPI_Type_vector(BLOCK, 1, STRIDE, MPI_INT, &vector));
    OK(MPI_Type_commit(&vector));
    all = BLOCK * check_size, is_root = check_rank == 0;
    a = check_alloc(sizeof(int) * all * STRIDE), b = check_alloc(sizeof(int) * all * STRIDE);
    counts = check_alloc(sizeof(int) * check_size), places = check_alloc(sizeof(int) * check_size);
    for (int r = 0; r < check_size; r++) counts[r] = BLOCK, places[r] = r * BLOCK;
    broadcasts();
    gathers_and_scatters();
    all_to_all();
    reductions();
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_free(&every_second));
    free(a), free(b), free(counts), free(places);
    return check_end();
}
