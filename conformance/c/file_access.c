/* Every routine that moves data (MPI-5.0 §14.4), through views of every shape and from memory of every shape: the bytes of
 * the file are compared with an array that this program fills by itself. */
#include "file.h"

enum { INTS = 1200 };

/* Views of ints: where the i-th int is, in ints from the displacement. */
enum { PLAIN, VECTOR, INDEXED, STRUCT, SUBARRAY, PLANES, VIEWS };

static MPI_Datatype view_type(int view)
{
    MPI_Datatype type, old;
    switch (view) {
    case PLAIN: MPI_Type_contiguous(3, MPI_INT, &type); break;
    case VECTOR:
        MPI_Type_vector(4, 2, 5, MPI_INT, &old);
        MPI_Type_create_resized(old, 0, 21 * sizeof(int), &type);
        MPI_Type_free(&old);
        break;
    case INDEXED: {
        int lengths[] = {1, 3, 2}, places[] = {1, 3, 9};
        MPI_Type_indexed(3, lengths, places, MPI_INT, &old);
        MPI_Type_create_resized(old, 0, 13 * sizeof(int), &type);
        MPI_Type_free(&old);
        break;
    }
    case STRUCT: {
        int lengths[] = {2, 1};
        MPI_Aint places[] = {2 * sizeof(int), 7 * sizeof(int)};
        MPI_Datatype types[] = {MPI_INT, MPI_INT};
        MPI_Type_create_struct(2, lengths, places, types, &old);
        MPI_Type_create_resized(old, 0, 8 * sizeof(int), &type);
        MPI_Type_free(&old);
        break;
    }
    case PLANES:
        /* Rows close together, and planes of them further apart than a window of the file reaches over. */
        MPI_Type_vector(20, 2, 5, MPI_INT, &old);
        MPI_Type_create_resized(old, 0, 9000 * sizeof(int), &type);
        MPI_Type_free(&old);
        break;
    default: {
        int sizes[] = {5, 7}, parts[] = {3, 4}, starts[] = {1, 2};
        MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    }
    }
    MPI_Type_commit(&type);
    return type;
}

static long view_place(int view, long i)
{
    static const int indexed[] = {1, 3, 4, 5, 9, 10}, structure[] = {2, 3, 7};
    switch (view) {
    case PLAIN: return i;
    case VECTOR: return i / 8 * 21 + i % 8 / 2 * 5 + i % 2;
    case INDEXED: return i / 6 * 13 + indexed[i % 6];
    case STRUCT: return i / 3 * 8 + structure[i % 3];
    case PLANES: return i / 40 * 9000 + i % 40 / 2 * 5 + i % 2;
    default: return i / 12 * 35 + (1 + i % 12 / 4) * 7 + 2 + i % 4;
    }
}

/* Memory of ints: contiguous; every third; backwards. */
enum { ROW, THIRD, BACK, MEMORIES };

static MPI_Datatype memory_type(int memory, int count)
{
    MPI_Datatype type;
    if (memory == ROW) {
        MPI_Type_contiguous(count, MPI_INT, &type);
    } else if (memory == THIRD) {
        MPI_Type_vector(count, 1, 3, MPI_INT, &type);
    } else {
        MPI_Aint *places = check_alloc(count * sizeof *places);
        for (int i = 0; i < count; i++) places[i] = (count - 1 - i) * (MPI_Aint)sizeof(int);
        MPI_Type_create_hindexed_block(count, 1, places, MPI_INT, &type);
        free(places);
    }
    MPI_Type_commit(&type);
    return type;
}

static int *memory_at(int *memory, int shape, int count, int i)
{
    return memory + (shape == ROW ? i : shape == THIRD ? 3 * i : count - 1 - i);
}

enum { AT, AT_ALL, OWN, ALL, I_AT, I_AT_ALL, I_OWN, I_ALL, SPLIT_AT, SPLIT, LARGE_AT, LARGE_ALL, FORMS };

static int put(int form, MPI_File file, MPI_Offset offset, const void *buf, int count, MPI_Datatype type, MPI_Status *status)
{
    MPI_Request request;
    int code = MPI_SUCCESS;
    if (form == OWN || form == ALL || form == I_OWN || form == I_ALL || form == SPLIT || form == LARGE_ALL)
        OK(MPI_File_seek(file, offset, MPI_SEEK_SET));
    switch (form) {
    case AT: return MPI_File_write_at(file, offset, buf, count, type, status);
    case AT_ALL: return MPI_File_write_at_all(file, offset, buf, count, type, status);
    case OWN: return MPI_File_write(file, buf, count, type, status);
    case ALL: return MPI_File_write_all(file, buf, count, type, status);
    case LARGE_AT: return MPI_File_write_at_c(file, offset, buf, count, type, status);
    case LARGE_ALL: return MPI_File_write_all_c(file, buf, count, type, status);
    case I_AT: code = MPI_File_iwrite_at(file, offset, buf, count, type, &request); break;
    case I_AT_ALL: code = MPI_File_iwrite_at_all(file, offset, buf, count, type, &request); break;
    case I_OWN: code = MPI_File_iwrite(file, buf, count, type, &request); break;
    case I_ALL: code = MPI_File_iwrite_all(file, buf, count, type, &request); break;
    case SPLIT_AT:
        OK(MPI_File_write_at_all_begin(file, offset, buf, count, type));
        return MPI_File_write_at_all_end(file, buf, status);
    default:
        OK(MPI_File_write_all_begin(file, buf, count, type));
        return MPI_File_write_all_end(file, buf, status);
    }
    return code ? code : MPI_Wait(&request, status);
}

static int get(int form, MPI_File file, MPI_Offset offset, void *buf, int count, MPI_Datatype type, MPI_Status *status)
{
    MPI_Request request;
    int code = MPI_SUCCESS, flag = 0;
    if (form == OWN || form == ALL || form == I_OWN || form == I_ALL || form == SPLIT || form == LARGE_ALL)
        OK(MPI_File_seek(file, offset, MPI_SEEK_SET));
    switch (form) {
    case AT: return MPI_File_read_at(file, offset, buf, count, type, status);
    case AT_ALL: return MPI_File_read_at_all(file, offset, buf, count, type, status);
    case OWN: return MPI_File_read(file, buf, count, type, status);
    case ALL: return MPI_File_read_all(file, buf, count, type, status);
    case LARGE_AT: return MPI_File_read_at_c(file, offset, buf, count, type, status);
    case LARGE_ALL: return MPI_File_read_all_c(file, buf, count, type, status);
    case I_AT: code = MPI_File_iread_at(file, offset, buf, count, type, &request); break;
    case I_AT_ALL: code = MPI_File_iread_at_all(file, offset, buf, count, type, &request); break;
    case I_OWN: code = MPI_File_iread(file, buf, count, type, &request); break;
    case I_ALL: code = MPI_File_iread_all(file, buf, count, type, &request); break;
    case SPLIT_AT:
        OK(MPI_File_read_at_all_begin(file, offset, buf, count, type));
        return MPI_File_read_at_all_end(file, buf, status);
    default:
        OK(MPI_File_read_all_begin(file, buf, count, type));
        return MPI_File_read_all_end(file, buf, status);
    }
    while (!code && !flag) code = MPI_Test(&request, &flag, status);
    return code;
}

static int value(int rank, int i) { return rank * 100000 + i + 1; }

/* Every rank writes `count` ints from `from` on of a view that begins where the last rank's part ends, or interleaved. */
static void round_trip(const char *name, int view, int shape, int form, int count, int from, int interleaved)
{
    MPI_File file;
    MPI_Status status;
    MPI_Datatype filetype = view_type(view), type = memory_type(shape, count), int_view = filetype;
    long span = view_place(view, from + count) + 40;
    long base = 3 + (interleaved ? 0 : check_rank * span);
    size_t most = (3 + (size_t)check_size * (interleaved ? from + count : span)) * sizeof(int);
    if (interleaved) {
        /* Each int of the view in a place of its own among those of all ranks. */
        MPI_Datatype slot;
        MPI_Type_create_resized(MPI_INT, 0, check_size * sizeof(int), &slot);
        MPI_Type_contiguous(2, slot, &int_view);
        MPI_Type_commit(&int_view);
        MPI_Type_free(&slot);
        base = 3 + check_rank;
        span = 0;
    }
    int *memory = check_alloc(3 * count * sizeof(int) + 16);
    for (int i = 0; i < 3 * count; i++) memory[i] = -1;
    for (int i = 0; i < count; i++) *memory_at(memory, shape, count, i) = value(check_rank, i);

    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, base * (MPI_Offset)sizeof(int), MPI_INT, int_view, "native", MPI_INFO_NULL));
    OK(put(form, file, from, memory, 1, type, &status));
    CHECK(status_bytes(&status) == count * 4L, "wrote %ld bytes", status_bytes(&status));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);

    int *expected = check_alloc(most), *found = check_alloc(most);
    long end = 0;
    for (int rank = 0; rank < check_size; rank++)
        for (int i = 0; i < count; i++) {
            long at = interleaved ? 3 + rank + (long)(from + i) * check_size : 3 + rank * span + view_place(view, from + i);
            expected[at] = value(rank, i);
            if (at + 1 > end) end = at + 1;
        }
    long length = file_bytes(name, found, most);
    CHECK(length == end * 4, "view %d form %d: %ld bytes, not %ld", view, form, length, end * 4);
    for (long i = 0; i < end; i++)
        if (expected[i] != found[i]) {
            CHECK(0, "view %d memory %d form %d inter %d: int %ld is %d, not %d", view, shape, form, interleaved, i, found[i], expected[i]);
            break;
        }

    for (int i = 0; i < 3 * count; i++) memory[i] = -1;
    OK(get(form, file, from, memory, 1, type, &status));
    CHECK(status_bytes(&status) == count * 4L, "read %ld bytes", status_bytes(&status));
    int wrong = 0;
    for (int i = 0; i < count; i++) wrong += *memory_at(memory, shape, count, i) != value(check_rank, i);
    CHECK(!wrong, "view %d memory %d form %d: %d of %d ints are wrong", view, shape, form, wrong, count);
    if (shape == THIRD)
        for (int i = 0; i < 3 * count; i++) CHECK(i % 3 == 0 || memory[i] == -1, "gap %d was written", i);
    /* Past the end there is nothing; across it a part. */
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(get(form, file, end + 5, memory, 1, type, &status));
    CHECK(status_bytes(&status) == 0, "read %ld bytes past the end", status_bytes(&status));
    if (count > 2) {
        OK(get(form, file, end - 2, memory, 1, type, &status));
        CHECK(status_bytes(&status) == 8, "read %ld bytes across the end", status_bytes(&status));
        CHECK(*memory_at(memory, shape, count, 1) == expected[end - 1], "the last int is wrong");
    }
    OK(MPI_File_close(&file));
    if (int_view != filetype) MPI_Type_free(&int_view);
    MPI_Type_free(&filetype);
    MPI_Type_free(&type);
    free(memory), free(expected), free(found);
}

/* Pointers move by what was asked for, whatever the form. */
static void pointers(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    MPI_Datatype filetype = view_type(VECTOR);
    int memory[24] = {0};
    MPI_Request requests[3];
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 8, MPI_INT, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_read(file, memory, 3, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_iread(file, memory + 3, 5, MPI_INT, &requests[0]));
    OK(MPI_File_iread_c(file, memory + 8, 2, MPI_INT, &requests[1]));
    OK(MPI_File_iread_at(file, 0, memory + 10, 3, MPI_INT, &requests[2]));
    OK(MPI_File_get_position(file, &offset));
    CHECK(offset == 10, "position %lld", (long long)offset);
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK(!memcmp(memory, memory + 10, 3 * sizeof(int)), "two reads differ");
    OK(MPI_File_seek(file, -4, MPI_SEEK_CUR));
    OK(MPI_File_get_position(file, &offset));
    CHECK(offset == 6, "position %lld after a seek", (long long)offset);
    for (int i = 0; i < 40; i++) {
        OK(MPI_File_get_byte_offset(file, i, &offset));
        CHECK(offset == 8 + 4 * view_place(VECTOR, i), "int %d is at %lld", i, (long long)offset);
    }
    FAILS(MPI_File_seek(file, -7, MPI_SEEK_CUR), MPI_ERR_ARG);
    FAILS(MPI_File_seek(file, 0, 77), MPI_ERR_ARG);
    OK(MPI_File_close(&file));
    MPI_Type_free(&filetype);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the file is made anew next */
}

/* A file that is only read may have a filetype whose copies overlap, or all lie at the same place. */
static void overlapping(const char *name)
{
    MPI_File file;
    MPI_Datatype three, close, still;
    MPI_Offset end = -1;
    int ints[100], found[6];
    for (int i = 0; i < 100; i++) ints[i] = i;
    file_make(name, ints, sizeof ints);
    OK(MPI_Type_contiguous(3, MPI_INT, &three));
    OK(MPI_Type_create_resized(three, 0, sizeof(int), &close));
    OK(MPI_Type_create_resized(three, 0, 0, &still));
    OK(MPI_Type_commit(&close));
    OK(MPI_Type_commit(&still));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 8, MPI_INT, close, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(file, 2, found, 6, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++) CHECK(found[i] == 2 + (2 + i) / 3 + (2 + i) % 3, "int %d is %d", i, found[i]);
    /* Copies 0 to 95 end before the end of the file; two ints of the next are there. */
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &end));
    CHECK(end == 96 * 3 + 2, "the end is at %lld", (long long)end);
    OK(MPI_File_set_view(file, 8, MPI_INT, still, "native", MPI_INFO_NULL));
    OK(MPI_File_read_all(file, found, 6, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++) CHECK(found[i] == 2 + i % 3, "int %d is %d", i, found[i]);
    OK(MPI_File_seek(file, 0, MPI_SEEK_END)); /* there is none, but it returns */
    OK(MPI_File_close(&file));
    OK(MPI_Type_free(&three));
    OK(MPI_Type_free(&close));
    OK(MPI_Type_free(&still));
    file_remove(name);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    const char *name = file_name("access");
    for (int form = 0; form < FORMS; form++)
        for (int view = 0; view < VIEWS; view++)
            round_trip(name, view, (view + form) % MEMORIES, form, view == PLAIN ? 7 : 91, form % 2 ? 0 : 5, 0);
    for (int form = 0; form < FORMS; form++)
        for (int shape = 0; shape < MEMORIES; shape++) round_trip(name, VECTOR, shape, form, 1 + 397 * shape, form, 1);
    pointers(name);
    overlapping(name);
    file_remove(name);
    return check_end();
}
