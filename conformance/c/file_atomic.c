/* Atomic mode (MPI-5.0 §14.6.1): of accesses at the same time, each sees all or nothing of the others', also through views with
 * gaps. And small pieces close together, written by all ranks at the same time: none undoes another's. */
#include "file.h"

enum { LENGTH = 6000, ROUNDS = 30 };

static void whole(const char *name, int strided)
{
    MPI_File file;
    MPI_Datatype view;
    int flag = 0, memory[LENGTH], torn = 0;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    MPI_Type_vector(1, 3, 3, MPI_INT, &view);
    if (strided) {
        MPI_Datatype old = view;
        MPI_Type_create_resized(old, 0, 5 * sizeof(int), &view);
        MPI_Type_free(&old);
    }
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(file, 0, MPI_INT, view, "native", MPI_INFO_NULL));
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(flag, "the file is not atomic");
    if (check_size > 1) FAILS(MPI_File_set_atomicity(file, check_rank == 0), MPI_ERR_NOT_SAME);
    memset(memory, 0, sizeof memory);
    OK(MPI_File_write_at_all(file, 0, memory, LENGTH, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        for (int i = 0; i < LENGTH; i++) memory[i] = check_rank * ROUNDS + round;
        if (round % 3 == 0) OK(MPI_File_write_at(file, 0, memory, LENGTH, MPI_INT, MPI_STATUS_IGNORE));
        if (round % 3 == 1) {
            OK(MPI_File_iwrite_at(file, 0, memory, LENGTH, MPI_INT, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        if (round % 3 == 2) OK(MPI_File_write_at_all(file, 0, memory, LENGTH, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(file, 0, memory, LENGTH, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 1; i < LENGTH; i++) torn += memory[i] != memory[0];
    }
    CHECK(!torn, "%d ints were of another write than the first", torn);
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_close(&file));
    MPI_Type_free(&view);
}

/* Each rank has every size-th int and writes alone, part by part, while the others do. */
static void side_by_side(const char *name, int mode)
{
    MPI_File file;
    MPI_Datatype slot;
    int memory[LENGTH], wrong = 0;
    OK(MPI_File_open(MPI_COMM_WORLD, name, mode | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_File_set_size(file, 0));
    MPI_Type_create_resized(MPI_INT, 0, check_size * sizeof(int), &slot);
    MPI_Type_commit(&slot);
    /* The last rank writes the rest of the file as one piece. */
    long part = 4L * LENGTH * check_size;
    OK(MPI_File_set_view(file, 4 * check_rank, MPI_INT, slot, "native", MPI_INFO_NULL));
    for (int i = 0; i < LENGTH; i++) memory[i] = check_rank * LENGTH + i;
    for (int i = 0; i < LENGTH; i += 500) {
        if (i % 1000) OK(MPI_File_write_at(file, i, memory + i, 500, MPI_INT, MPI_STATUS_IGNORE));
        else {
            MPI_Request requests[2];
            OK(MPI_File_iwrite_at(file, i, memory + i, 250, MPI_INT, &requests[0]));
            OK(MPI_File_iwrite_at(file, i + 250, memory + i + 250, 250, MPI_INT, &requests[1]));
            OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        }
    }
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    int *all = check_alloc(part);
    CHECK(file_bytes(name, all, part) == part, "the file has %ld bytes", file_bytes(name, all, part));
    for (long i = 0; i < part / 4; i++) wrong += all[i] != i % check_size * LENGTH + i / check_size;
    CHECK(!wrong, "%d ints are wrong", wrong);
    free(all);
    OK(MPI_File_close(&file));
    MPI_Type_free(&slot);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    const char *name = file_name("atomic");
    whole(name, 0);
    whole(name, 1);
    side_by_side(name, MPI_MODE_RDWR);
    side_by_side(name, MPI_MODE_WRONLY);
    file_remove(name);
    return check_end();
}
