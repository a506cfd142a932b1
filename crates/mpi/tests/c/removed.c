/* The functions that MPI-3.0 removed do what their successors do; statuses of Fortran. */
#define AYATORI_REMOVED_FUNCTIONS
#include "check.h"

#include <stddef.h>

static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class = 0;
    MPI_Error_class(*code, &class);
    CHECK(*comm == MPI_COMM_SELF);
    handled = class;
}

struct mixed {
    int a;
    double b[2];
};

int main(void)
{
    struct mixed one = {3, {1.5, -2}}, two = {0, {0, 0}};
    int lengths[2] = {1, 2}, size = 0;
    MPI_Aint at[2], extent = 0, lb = -1, ub = -1;
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, mixed, vector, indexed;
    MPI_Errhandler mine, got;
    MPI_Status status, back;
    MPI_Fint fortran[MPI_F_STATUS_SIZE];
    CHECK(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    CHECK(MPI_Address(&one, &at[0]) == MPI_SUCCESS && at[0] == (MPI_Aint)&one);
    at[0] = 0;
    at[1] = offsetof(struct mixed, b);
    CHECK(MPI_Type_struct(2, lengths, at, types, &mixed) == MPI_SUCCESS);
    CHECK(MPI_Type_commit(&mixed) == MPI_SUCCESS);
    CHECK(MPI_Type_extent(mixed, &extent) == MPI_SUCCESS && extent == sizeof(struct mixed));
    MPI_Sendrecv(&one, 1, mixed, 0, 9, &two, 1, mixed, 0, 9, MPI_COMM_SELF, &status);
    CHECK(two.a == 3 && two.b[0] == 1.5 && two.b[1] == -2);
    CHECK(MPI_Status_c2f(&status, fortran) == MPI_SUCCESS && fortran[MPI_F_TAG] == 9);
    CHECK(MPI_Status_f2c(fortran, &back) == MPI_SUCCESS && back.MPI_TAG == 9);
    CHECK(MPI_Get_count(&back, mixed, &size) == MPI_SUCCESS && size == 1);
    CHECK(MPI_Type_hvector(3, 1, 12, MPI_INT, &vector) == MPI_SUCCESS);
    CHECK(MPI_Type_extent(vector, &extent) == MPI_SUCCESS && extent == 28);
    at[0] = 8;
    at[1] = 100;
    CHECK(MPI_Type_hindexed(2, lengths, at, MPI_INT, &indexed) == MPI_SUCCESS);
    CHECK(MPI_Type_lb(indexed, &lb) == MPI_SUCCESS && lb == 8);
    CHECK(MPI_Type_ub(indexed, &ub) == MPI_SUCCESS && ub == 108);
    CHECK(PMPI_Type_ub(vector, &ub) == MPI_SUCCESS && ub == 28);
    CHECK(MPI_Errhandler_create(handler, &mine) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_set(MPI_COMM_SELF, mine) == MPI_SUCCESS);
    CHECK(MPI_Errhandler_get(MPI_COMM_SELF, &got) == MPI_SUCCESS && got == mine);
    CHECK(MPI_Type_extent(MPI_DATATYPE_NULL, &extent) != MPI_SUCCESS && handled == MPI_ERR_TYPE);
    handled = 0;
    CHECK(MPI_Type_ub(mixed, NULL) != MPI_SUCCESS);
    MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&mine);
    MPI_Errhandler_free(&got);
    MPI_Type_free(&mixed);
    MPI_Type_free(&vector);
    MPI_Type_free(&indexed);
    MPI_Finalize();
    return failures != 0;
}
