/* Opening and closing, wrong arguments, what can be asked of a file, and error handlers (MPI-5.0 §14.2, §14.7, §9.3). */
#include "file.h"
#include <sys/stat.h>

static int handled_count, handled_code;
static MPI_File handled_file;

static void handler(MPI_File *file, int *code, ...)
{
    handled_count++;
    handled_code = *code;
    handled_file = *file;
}

static void modes(const char *name)
{
    MPI_File file = MPI_FILE_NULL;
    const int wrong[] = {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDWR | MPI_MODE_WRONLY,
                         MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_EXCL,
                         MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_MODE_RDWR | 1 << 20};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(MPI_File_open(MPI_COMM_WORLD, name, wrong[i], MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    if (check_size > 1) {
        int mode = check_rank ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_WRONLY | MPI_MODE_CREATE;
        FAILS(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
        mode = check_rank == check_size - 1 ? 0 : MPI_MODE_RDWR | MPI_MODE_CREATE;
        FAILS(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    }
    CHECK(file == MPI_FILE_NULL, "a handle was given in spite of an error");
    CHECK(access(name, F_OK), "a file was made in spite of an error");
    FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "", MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_NULL, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_COMM);
    if (check_size > 1) {
        MPI_Comm half, inter;
        MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_rank > 0 ? 0 : 1, 0, &inter);
        FAILS(MPI_File_open(inter, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_COMM);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    FAILS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &file));
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "the handle is not null after the file was closed");
    FAILS(MPI_File_close(&file), MPI_ERR_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &file),
          MPI_ERR_FILE_EXISTS);
}

static void rights(const char *name)
{
    MPI_File file;
    MPI_Request request;
    int memory[4] = {1, 2, 3, 4}, amode, flag;
    file_make(name, memory, sizeof memory);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    OK(MPI_File_get_amode(file, &amode));
    CHECK(amode == MPI_MODE_RDONLY, "amode %d", amode);
    FAILS(MPI_File_write(file, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_write_all(file, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_write_ordered(file, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_iwrite_shared(file, memory, 1, MPI_INT, &request), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_set_size(file, 0), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_preallocate(file, 100), MPI_ERR_READ_ONLY);
    OK(MPI_File_get_atomicity(file, &flag));
    CHECK(!flag, "a new file is atomic");
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_File_read(file, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    FAILS(MPI_File_read_at_all(file, 0, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    OK(MPI_File_close(&file));
    file_remove(name);
}

static void arguments(const char *name)
{
    MPI_File file;
    MPI_Datatype type;
    MPI_Request request;
    int memory[8] = {0};
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    MPI_Type_contiguous(2, MPI_INT, &type);
    FAILS(MPI_File_write(MPI_FILE_NULL, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_FILE);
    FAILS(MPI_File_write(file, memory, -1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    FAILS(MPI_File_write(file, NULL, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    FAILS(MPI_File_write(file, memory, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    FAILS(MPI_File_write(file, memory, 1, type, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    FAILS(MPI_File_write_at(file, -1, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    FAILS(MPI_File_iread_at(file, -1, memory, 1, MPI_INT, &request), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_CHAR, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "foreign", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    FAILS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    FAILS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    FAILS(MPI_File_read_all_end(file, memory, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_File_write(file, memory, 6, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_IO);
    OK(MPI_File_read_all_begin(file, memory, 1, MPI_INT));
    FAILS(MPI_File_read_all_begin(file, memory, 1, MPI_INT), MPI_ERR_OTHER);
    FAILS(MPI_File_read_all(file, memory, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    FAILS(MPI_File_write_all_end(file, memory, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    OK(MPI_File_read_all_end(file, memory, MPI_STATUS_IGNORE));
    if (check_size > 1) {
        /* One rank's mistake leaves no other waiting. */
        int code = MPI_File_write_at_all(file, check_rank, memory, check_rank == 1 ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE), class;
        MPI_Error_class(code, &class);
        CHECK(class == (check_rank == 1 ? MPI_ERR_COUNT : MPI_SUCCESS), "class %d", class);
        FAILS(MPI_File_set_size(file, check_rank == 1 ? 5 : 6), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_set_view(file, 0, check_rank == 1 ? MPI_CHAR : MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_set_view(file, check_rank == 1 ? -1 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    }
    OK(MPI_File_close(&file));
    MPI_Type_free(&type);
}

/* Size, end and view of an open file. */
static void sizes(MPI_File file)
{
    MPI_Offset size, disp;
    MPI_Aint extent;
    MPI_Count large;
    MPI_Datatype vector, etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    int combiner, ints, aints, types;
    OK(MPI_File_preallocate(file, 5000));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 5000, "size %lld", (long long)size);
    OK(MPI_File_preallocate(file, 100));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 5000, "size %lld after less was preallocated", (long long)size);
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_set_size(file, 77));
    OK(MPI_File_get_size(file, &size));
    CHECK(size == 77, "size %lld", (long long)size);
    OK(MPI_File_seek(file, -7, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &disp));
    CHECK(disp == 70, "position %lld", (long long)disp);

    MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    OK(MPI_File_set_view(file, 16, MPI_INT, vector, "native", MPI_INFO_NULL));
    OK(MPI_File_get_view(file, &disp, &etype, &filetype, representation));
    CHECK(disp == 16 && etype == MPI_INT && !strcmp(representation, "native"), "another view");
    OK(MPI_Type_get_envelope(filetype, &ints, &aints, &types, &combiner));
    CHECK(combiner == MPI_COMBINER_VECTOR, "the filetype's combiner is %d", combiner);
    MPI_Type_free(&filetype);
    /* Ints at 16, 24, 28, 36, 40, 48, 52, 60, 64, 72, 76: the last is there in part. */
    OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(file, &disp));
    CHECK(disp == 11, "the end is at %lld", (long long)disp);
    OK(MPI_File_get_type_extent(file, vector, &extent));
    CHECK(extent == 12, "extent %ld", (long)extent);
    OK(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &large));
    CHECK(large == 8, "extent %ld", (long)large);
    MPI_Type_free(&vector);
}

static void inquiries(const char *name)
{
    MPI_File file;
    MPI_Group group, world;
    MPI_Info info, used;
    char text[MPI_MAX_INFO_VAL + 1];
    int result, flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "8192");
    MPI_Info_set(info, "no_such_hint", "1");
    MPI_Info_set(info, "file_perm", "600");
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    struct stat status;
    CHECK(!stat(name, &status) && (status.st_mode & 0777) == 0600, "permissions %o", (unsigned)(status.st_mode & 0777));
    OK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, "cb_buffer_size", MPI_MAX_INFO_VAL, text, &flag);
    CHECK(flag && !strcmp(text, "8192"), "cb_buffer_size is %s", flag ? text : "not there");
    MPI_Info_get(used, "no_such_hint", MPI_MAX_INFO_VAL, text, &flag);
    CHECK(!flag, "an unknown hint is shown");
    MPI_Info_free(&used);
    MPI_Info_set(info, "cb_buffer_size", "16384");
    OK(MPI_File_set_info(file, info));
    OK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, "cb_buffer_size", MPI_MAX_INFO_VAL, text, &flag);
    CHECK(flag && !strcmp(text, "16384"), "cb_buffer_size is %s", flag ? text : "not there");
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    OK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    CHECK(result == MPI_IDENT, "another group");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    sizes(file);
    OK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) OK(MPI_File_delete(name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(name, F_OK), "the file is there after it was deleted");
}

static void handlers(const char *name)
{
    MPI_File file;
    MPI_Errhandler own, found;
    char byte;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == MPI_ERRORS_RETURN, "files do not begin with MPI_ERRORS_RETURN");
    OK(MPI_File_create_errhandler(handler, &own));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    OK(MPI_File_set_errhandler(file, own));
    FAILS(MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    CHECK(handled_count == 1 && handled_file == file, "the handler was called %d times", handled_count);
    OK(MPI_File_call_errhandler(file, MPI_ERR_QUOTA));
    CHECK(handled_count == 2 && handled_code == MPI_ERR_QUOTA, "%d calls, code %d", handled_count, handled_code);
    OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == own, "another error handler");
    OK(MPI_Errhandler_free(&found));
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/no/such/folder", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    CHECK(handled_count == 2, "an error of opening came to a file's handler");
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, own));
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/no/such/folder", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    CHECK(handled_count == 3 && handled_file == MPI_FILE_NULL, "the default handler was not called");
    MPI_File second;
    char other[600];
    snprintf(other, sizeof other, "%s-2", name);
    OK(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &second));
    FAILS(MPI_File_read_at(second, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    CHECK(handled_count == 4 && handled_file == second, "a new file has not the default handler");
    OK(MPI_File_close(&second));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_File_close(&file));
    OK(MPI_Errhandler_free(&own));
}

/* A file that is closed has no handle any more, whatever the error. */
static void deleted_before(const char *name)
{
    MPI_File file;
    const int modes = MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    OK(MPI_File_open(MPI_COMM_WORLD, name, modes, MPI_INFO_NULL, &file));
    if (check_rank == 0) OK(MPI_File_delete(name, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_File_close(&file), MPI_ERR_NO_SUCH_FILE);
    CHECK(file == MPI_FILE_NULL, "the handle is not null after the file was closed with an error");
}

/* A file at its limit: what the system refuses becomes an error of the file, in requests too. */
static void refused(void)
{
    MPI_File file;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    char byte = 1;
    if (access("/dev/full", W_OK)) return;
    OK(MPI_File_open(MPI_COMM_SELF, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_File_write(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    OK(MPI_File_iwrite(file, &byte, 1, MPI_BYTE, &requests[0]));
    FAILS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    OK(MPI_File_iwrite(file, &byte, 1, MPI_BYTE, &requests[0]));
    OK(MPI_File_iwrite(file, &byte, 1, MPI_BYTE, &requests[1]));
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        int code = statuses[i].MPI_ERROR;
        /* It returns when one has failed; the other may go on (MPI-5.0 §3.7.5). */
        if (code == MPI_ERR_PENDING) code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        else failed++;
        CHECK(code == MPI_ERR_NO_SPACE, "write %d has error %d", i, code);
        CHECK(requests[i] == MPI_REQUEST_NULL, "write %d has ended and its request is not null", i);
    }
    CHECK(failed > 0, "MPI_Waitall failed and says of no request why");
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const char *name = file_name("errors");
    modes(name);
    rights(name);
    arguments(name);
    file_remove(name);
    MPI_Barrier(MPI_COMM_WORLD);
    inquiries(name);
    handlers(name);
    deleted_before(name);
    refused();
    return check_end();
}
