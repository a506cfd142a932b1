/* Shared file pointers (MPI-5.0 §14.4.4): each record is written and read once, whoever comes when; ordered access is in
 * the order of the ranks; files of sequential access have nothing else. */
#include "file.h"

enum { RECORDS = 24, RECORD = 5 };

static void fill(int *record, int rank, int k)
{
    for (int i = 0; i < RECORD; i++) record[i] = rank * 10000 + k * 10 + i;
}

/* All ranks write records at the same time, blocking and not; then all read until nothing is left. */
static void unordered(const char *name)
{
    MPI_File file;
    MPI_Datatype record, view;
    MPI_Offset offset;
    MPI_Status status;
    MPI_Type_contiguous(RECORD, MPI_INT, &record);
    MPI_Type_create_resized(record, 0, 32, &view);
    MPI_Type_commit(&record);
    MPI_Type_commit(&view);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 12, record, view, "native", MPI_INFO_NULL));
    int memory[RECORDS][RECORD];
    for (int k = 0; k < RECORDS; k++) fill(memory[k], check_rank, k);
    for (int k = 0; k < RECORDS; k += 3) {
        MPI_Request request;
        OK(MPI_File_iwrite_shared(file, memory[k], 1, record, &request));
        OK(MPI_File_write_shared(file, memory[k + 1], RECORD, MPI_INT, &status));
        CHECK(status_bytes(&status) == RECORD * 4, "wrote %ld bytes", status_bytes(&status));
        OK(MPI_File_write_shared_c(file, memory[k + 2], 1, record, &status));
        OK(MPI_Wait(&request, &status));
        CHECK(status_bytes(&status) == RECORD * 4, "wrote %ld bytes later", status_bytes(&status));
    }
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == (MPI_Offset)RECORDS * check_size, "the pointer is at %lld", (long long)offset);
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));

    int *seen = check_alloc(check_size * RECORDS * sizeof(int)), *all = check_alloc(check_size * RECORDS * sizeof(int));
    for (int k = 0;; k++) {
        int found[RECORD], expected[RECORD];
        if (k % 2) {
            MPI_Request request;
            OK(MPI_File_iread_shared(file, found, 1, record, &request));
            OK(MPI_Wait(&request, &status));
        } else OK(MPI_File_read_shared(file, found, RECORD, MPI_INT, &status));
        if (status_bytes(&status) == 0) break;
        int rank = found[0] / 10000, number = found[0] % 10000 / 10;
        if (rank < 0 || rank >= check_size || number >= RECORDS) {
            CHECK(0, "a record begins with %d", found[0]);
            break;
        }
        fill(expected, rank, number);
        CHECK(!memcmp(found, expected, sizeof found), "record %d of rank %d is torn", number, rank);
        seen[rank * RECORDS + number]++;
    }
    MPI_Allreduce(seen, all, check_size * RECORDS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < check_size * RECORDS; i++) CHECK(all[i] == 1, "record %d was read %d times", i, all[i]);
    OK(MPI_File_close(&file));
    MPI_Type_free(&record);
    MPI_Type_free(&view);
    free(seen);
    free(all);
}

/* Rank r has r % 3 + (r > 0) numbers; as many again in a split call. */
static void ordered(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    MPI_Status status;
    int own = check_rank % 3 + (check_rank > 0), total = 0, before = 0, memory[8], found[64];
    MPI_Allreduce(&own, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(&own, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (check_rank == 0) before = 0;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < own; i++) memory[i] = round * total + before + i;
        if (round == 1) {
            OK(MPI_File_write_ordered_begin(file, memory, own, MPI_INT));
            OK(MPI_File_write_ordered_end(file, memory, &status));
        } else if (round == 2) {
            OK(MPI_File_write_ordered_c(file, memory, own, MPI_INT, &status));
        } else OK(MPI_File_write_ordered(file, memory, own, MPI_INT, &status));
        CHECK(status_bytes(&status) == own * 4L, "wrote %ld bytes in order", status_bytes(&status));
    }
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    int most = 3 * total < 64 ? 3 * total : 64;
    OK(MPI_File_read_at(file, 0, found, most, MPI_INT, &status));
    for (int i = 0; i < most; i++) CHECK(found[i] == i, "place %d has %d", i, found[i]);

    OK(MPI_File_seek_shared(file, -3 * total, MPI_SEEK_END));
    OK(MPI_File_read_ordered(file, memory, own, MPI_INT, &status));
    for (int i = 0; i < own; i++) CHECK(memory[i] == before + i, "read %d, not %d", memory[i], before + i);
    OK(MPI_File_read_ordered_begin(file, memory, own, MPI_INT));
    OK(MPI_File_read_ordered_end(file, memory, &status));
    for (int i = 0; i < own; i++) CHECK(memory[i] == total + before + i, "read %d in a split call", memory[i]);
    OK(MPI_File_seek_shared(file, -total, MPI_SEEK_CUR));
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == total, "the pointer is at %lld, not %d", (long long)offset, total);
    FAILS(MPI_File_seek_shared(file, -total - 1, MPI_SEEK_CUR), MPI_ERR_ARG);
    FAILS(MPI_File_seek_shared(file, 0, 5), MPI_ERR_ARG);
    OK(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == 0, "a new view leaves the pointer at %lld", (long long)offset);
    OK(MPI_File_close(&file));
    CHECK(access(name, F_OK), "the file is still there after it was closed");
}

static void sequential(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    int memory = 100 + check_rank, found[3];
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    OK(MPI_File_write_ordered(file, &memory, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &offset, &etype, &filetype, representation));
    CHECK(offset == 4 * check_size, "the view begins at %lld", (long long)offset);
    CHECK(etype == MPI_INT && filetype == MPI_INT && !strcmp(representation, "native"), "another view");
    OK(MPI_File_write_ordered(file, &memory, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_File_write(file, &memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_write_at(file, 0, &memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_get_position(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_get_position_shared(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_get_byte_offset(file, 0, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_read_shared(file, found, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    for (int i = 0; i < 2; i++) {
        OK(MPI_File_read_ordered(file, &memory, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(memory == 100 + check_rank, "read %d", memory);
    }
    OK(MPI_File_close(&file));
}

/* The shared pointer is where the last of all left it when a view begins there, whoever came first. */
static void late(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    const int modes = MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL;
    int value = check_rank;
    OK(MPI_File_open(MPI_COMM_WORLD, name, modes, MPI_INFO_NULL, &file));
    if (check_rank > 0) {
        usleep(50000); /* rank 0 sets the view now; without the pause the check may see nothing */
        OK(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &offset, &etype, &filetype, representation));
    CHECK(offset == 4 * (check_size - 1), "the view begins at %lld", (long long)offset);
    OK(MPI_File_close(&file));
}

/* A file opened to append begins at its end. */
static void append(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &file));
    OK(MPI_File_get_position(file, &offset));
    CHECK(offset == 8 * check_size, "the pointer is at %lld", (long long)offset);
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == 8 * check_size, "the shared pointer is at %lld", (long long)offset);
    OK(MPI_File_close(&file));
}

/* A program may go to another directory while a file is open that it opened by a name within the first. */
static void moved(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    char folder[512], before[512];
    const char *base = strrchr(name, '/') + 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(base - name), name);
    CHECK(getcwd(before, sizeof before) && chdir(folder) == 0, "cannot go to %s", folder);
    OK(MPI_File_open(MPI_COMM_WORLD, base, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    CHECK(chdir("/") == 0, "cannot go to /");
    OK(MPI_File_write_shared(file, &check_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == 4 * check_size, "the shared pointer is at %lld", (long long)offset);
    OK(MPI_File_close(&file));
    CHECK(access(name, F_OK) != 0, "%s is still there", name);
    CHECK(chdir(before) == 0, "cannot go back to %s", before);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    const char *name = file_name("shared");
    unordered(name);
    ordered(name);
    sequential(name);
    append(name);
    late(name);
    file_remove(name);
    moved(name);
    return check_end();
}
