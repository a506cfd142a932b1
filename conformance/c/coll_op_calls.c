/* A reduction function asks for ranks and for its datatype, freed by then (MPI-5.0, 5.1.9, 6.9.5). */
#include "check.h"

#define COUNT 1500
#define EXTENT 12

static MPI_Op inner;
static int wrong;

static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
}

/* Elements of EXTENT bytes that begin with an integer. */
static void asking_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int rank = -1, size = -1, bytes = -1, flag = 0, none[3], combiner = -1;
    MPI_Aint lb = -1, extent = -1;
    void *value;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    wrong += rank != check_rank || size != check_size || !flag;
    MPI_Type_size(*type, &bytes);
    MPI_Type_get_extent(*type, &lb, &extent);
    MPI_Type_get_envelope(*type, &none[0], &none[1], &none[2], &combiner);
    wrong += bytes != sizeof(int) || lb != 0 || extent != EXTENT || combiner != MPI_COMBINER_RESIZED;
    for (int i = 0; i < *count; i++) {
        char *from = (char *)in + (size_t)i * EXTENT, *to = (char *)inout + (size_t)i * EXTENT;
        wrong += MPI_Reduce_local(from, to, 1, MPI_INT, inner) != MPI_SUCCESS;
    }
}

static void check_sum(int line, const char *sums)
{
    for (int i = 0; i < COUNT; i++) {
        int found, wanted = i * check_size;
        memcpy(&found, sums + (size_t)i * EXTENT, sizeof found);
        CHECK(found == wanted, "line %d: element %d is %d, not %d", line, i, found, wanted);
    }
    CHECK(wrong == 0, "line %d: %d wrong answers", line, wrong);
    wrong = 0;
}

static MPI_Datatype wide_type(void)
{
    MPI_Datatype type;
    OK(MPI_Type_create_resized(MPI_INT, 0, EXTENT, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

int main(int argc, char **argv)
{
    MPI_Op op;
    check_start(&argc, &argv);
    OK(MPI_Op_create(sum, 1, &inner));
    char *mine = check_alloc((size_t)COUNT * EXTENT), *all = check_alloc((size_t)COUNT * EXTENT);
    for (int i = 0; i < COUNT; i++) memcpy(mine + (size_t)i * EXTENT, &i, sizeof i);
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Datatype type = wide_type();
        MPI_Request request;
        OK(MPI_Op_create(asking_sum, commutes, &op));
        OK(MPI_Allreduce(mine, all, COUNT, type, op, MPI_COMM_WORLD));
        check_sum(__LINE__, all);
        /* Both go while the operation is under way. */
        OK(MPI_Iallreduce(mine, all, COUNT, type, op, MPI_COMM_WORLD, &request));
        OK(MPI_Type_free(&type));
        OK(MPI_Op_free(&op));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_sum(__LINE__, all);
    }
    OK(MPI_Op_free(&inner));
    free(mine);
    free(all);
    return check_end();
}
