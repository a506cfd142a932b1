/* Operations of the user: order of a non-commutative one, count and type passed, non-blocking, freed early. */
#include "check.h"

#define MODULUS 1000003

/* x -> a*x + b. Composition is associative and does not commute: any exchange of ranks shows. */
struct affine { int a, b; };

static int calls_with_wrong_type;

static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    struct affine *first = in, *second = inout;
    if (*type != MPI_2INT) calls_with_wrong_type++;
    for (int i = 0; i < *count; i++) {
        struct affine both;
        both.a = (int)((long)first[i].a * second[i].a % MODULUS);
        both.b = (int)(((long)second[i].a * first[i].b + second[i].b) % MODULUS);
        second[i] = both;
    }
}

static struct affine element(int r, int i)
{
    struct affine f = {2 + (r * 31 + i) % 97, 1 + (r * 17 + i * 5) % 89};
    return f;
}

static struct affine fold(int first, int last, int i)
{
    struct affine all = element(first, i);
    int one = 1;
    MPI_Datatype type = MPI_2INT;
    for (int r = first + 1; r <= last; r++) {
        struct affine next = element(r, i);
        compose(&all, &next, &one, &type);
        all = next;
    }
    return all;
}

#define SAME(what, got, last) \
    do { \
        for (int i = 0; i < count; i++) { \
            struct affine wanted = fold(0, last, i); \
            if ((got)[i].a != wanted.a || (got)[i].b != wanted.b) { \
                CHECK(0, "%s of %d: element %d is out of order", what, count, i); \
                break; \
            } \
        } \
    } while (0)

static void in_order(int count)
{
    struct affine *mine = check_alloc(sizeof *mine * (size_t)(count * check_size + 1));
    struct affine *got = check_alloc(sizeof *got * (size_t)(count * check_size + 1));
    MPI_Op op;
    MPI_Request request;
    int commutes = 1;
    OK(MPI_Op_create(compose, 0, &op));
    OK(MPI_Op_commutative(op, &commutes));
    CHECK(!commutes, "Op_commutative says yes");
    for (int i = 0; i < count; i++) mine[i] = element(check_rank, i);
    OK(MPI_Allreduce(mine, got, count, MPI_2INT, op, MPI_COMM_WORLD));
    SAME("Allreduce", got, check_size - 1);
    for (int root = 0; root < check_size; root++) {
        OK(MPI_Reduce(mine, got, count, MPI_2INT, op, root, MPI_COMM_WORLD));
        if (check_rank == root) SAME("Reduce", got, check_size - 1);
    }
    OK(MPI_Scan(mine, got, count, MPI_2INT, op, MPI_COMM_WORLD));
    SAME("Scan", got, check_rank);
    OK(MPI_Exscan(mine, got, count, MPI_2INT, op, MPI_COMM_WORLD));
    if (check_rank > 0) SAME("Exscan", got, check_rank - 1);
    OK(MPI_Iallreduce(mine, got, count, MPI_2INT, op, MPI_COMM_WORLD, &request));
    OK(MPI_Op_free(&op)); /* stays until the operation has ended */
    CHECK(op == MPI_OP_NULL, "Op_free leaves a handle");
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    SAME("Iallreduce", got, check_size - 1);
    free(mine);
    free(got);
}

static void scattered(int count)
{
    struct affine *mine = check_alloc(sizeof *mine * (size_t)(count * check_size + 1));
    struct affine *got = check_alloc(sizeof *got * (size_t)(count + 1));
    MPI_Op op;
    OK(MPI_Op_create(compose, 0, &op));
    for (int i = 0; i < count * check_size; i++) mine[i] = element(check_rank, i);
    OK(MPI_Reduce_scatter_block(mine, got, count, MPI_2INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) {
        struct affine wanted = fold(0, check_size - 1, check_rank * count + i);
        CHECK(got[i].a == wanted.a && got[i].b == wanted.b, "Reduce_scatter_block of %d: element %d", count, i);
    }
    OK(MPI_Op_free(&op));
    free(mine);
    free(got);
}

static void smallest_even(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *a = in, *b = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        if (a[i] % 2 == 0 && (b[i] % 2 || a[i] < b[i])) b[i] = a[i];
}

static void commutative(void)
{
    MPI_Op op;
    int mine[100], got[100];
    for (int i = 0; i < 100; i++) mine[i] = 2 * ((check_rank + i) % check_size) + 10;
    OK(MPI_Op_create(smallest_even, 1, &op));
    OK(MPI_Allreduce(mine, got, 100, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < 100; i++) CHECK(got[i] == 10, "element %d is %d", i, got[i]);
    OK(MPI_Op_free(&op));
}

/* 4,100 bytes: no small multiple of an element is a multiple of a cache line. */
struct long_element { int values[1025]; };

static void add_long(void *in, void *inout, int *count, MPI_Datatype *type)
{
    struct long_element *from = in, *to = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        for (int j = 0; j < 1025; j++) to[i].values[j] += from[i].values[j];
}

static void long_elements(int count)
{
    struct long_element *mine = check_alloc(sizeof *mine * (size_t)count);
    struct long_element *got = check_alloc(sizeof *got * (size_t)count);
    MPI_Datatype type;
    MPI_Op op;
    int wrong = 0;
    OK(MPI_Type_contiguous(1025, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(add_long, 1, &op));
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 1025; j++) mine[i].values[j] = check_rank + i + j;
    OK(MPI_Allreduce(mine, got, count, type, op, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 1025; j++)
            wrong += got[i].values[j] != check_size * (check_size - 1) / 2 + check_size * (i + j);
    CHECK(wrong == 0, "Allreduce of %d long elements: %d values are wrong", count, wrong);
    OK(MPI_Reduce(mine, got, count, type, op, check_size - 1, MPI_COMM_WORLD));
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&type));
    free(mine);
    free(got);
}

/* Rank 1 goes on when the reduction has ended, for which rank 0 calls the function while it waits for, or looks for,
 * what rank 1 sends then. */
static void beside_a_receive(int looks)
{
    MPI_Op op;
    MPI_Request reduction, receive = MPI_REQUEST_NULL;
    int mine = 2 * check_rank + 10, got = 0, number = 0, over = 0;
    OK(MPI_Op_create(smallest_even, 1, &op));
    if (check_rank == 0 && check_size > 1) OK(MPI_Irecv(&number, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &receive));
    OK(MPI_Iallreduce(&mine, &got, 1, MPI_INT, op, MPI_COMM_WORLD, &reduction));
    if (check_rank == 1) {
        OK(MPI_Wait(&reduction, MPI_STATUS_IGNORE));
        OK(MPI_Send(&got, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    }
    while (looks && !over) OK(MPI_Test(&receive, &over, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&reduction, MPI_STATUS_IGNORE));
    CHECK(got == 10 && (check_rank > 0 || check_size < 2 || number == 10),
          "it is %d, and %d came", got, number);
    OK(MPI_Op_free(&op));
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 7, 100, 2049, 20000};
    check_start(&argc, &argv);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) in_order(counts[i]);
    for (size_t i = 0; i < 4; i++) scattered(counts[i]);
    commutative();
    long_elements(1);
    long_elements(40);
    beside_a_receive(0);
    beside_a_receive(1);
    CHECK(!calls_with_wrong_type, "the function got another type %d times", calls_with_wrong_type);
    return check_end();
}
