/* Data representations (MPI-5.0 §14.5): external32 byte by byte, also of types that are shorter there, and the program's own. */
#include "file.h"

static void external(const char *name)
{
    MPI_File file;
    MPI_Aint extent;
    MPI_Status status;
    MPI_Datatype pair, view, record;
    struct { int a; long b; double c; } memory[2] = {{1, -2, 1.0}, {3, 4, -2.0}}, back[2];
    static const unsigned char expected[] = {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0,
                                             0, 0, 0, 3, 0,    0,    0,    4,    0xc0, 0,    0, 0, 0, 0, 0, 0};
    unsigned char bytes[256];
    int lengths[] = {1, 1, 1};
    MPI_Aint places[] = {(char *)&memory[0].a - (char *)memory, (char *)&memory[0].b - (char *)memory,
                         (char *)&memory[0].c - (char *)memory};
    MPI_Datatype types[] = {MPI_INT, MPI_LONG, MPI_DOUBLE};
    MPI_Type_create_struct(3, lengths, places, types, &pair);
    MPI_Type_create_resized(pair, 0, sizeof memory[0], &record);
    MPI_Type_commit(&record);
    MPI_Type_free(&pair);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    CHECK(extent == 4, "a long has %ld bytes", (long)extent);
    OK(MPI_File_get_type_extent(file, MPI_LONG_DOUBLE, &extent));
    CHECK(extent == 16, "a long double has %ld bytes", (long)extent);
    OK(MPI_File_write(file, memory, 2, record, &status));
    CHECK(status_bytes(&status) == 40, "wrote %ld bytes", status_bytes(&status));
    CHECK(file_bytes(name, bytes, sizeof bytes) == sizeof expected, "another length");
    CHECK(!memcmp(bytes, expected, sizeof expected), "other bytes");
    memset(back, 0, sizeof back);
    OK(MPI_File_read_at(file, 0, back, 2, record, &status));
    CHECK(back[0].a == 1 && back[0].b == -2 && back[0].c == 1.0, "read %d %ld %g", back[0].a, back[0].b, back[0].c);
    CHECK(back[1].a == 3 && back[1].b == 4 && back[1].c == -2.0, "read %d %ld %g", back[1].a, back[1].b, back[1].c);
    /* Only a part of the second is there. */
    OK(MPI_File_set_size(file, 24));
    MPI_Request request;
    OK(MPI_File_iread_at(file, 0, back, 2, record, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(status_bytes(&status) == 32, "read %ld bytes of a short file", status_bytes(&status));

    /* Every second long: four bytes each in the file. */
    OK(MPI_File_set_size(file, 0));
    long longs[3] = {7, 8, -9}, found[3];
    MPI_Type_vector(3, 1, 2, MPI_LONG, &view);
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(file, 2, MPI_LONG, view, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, longs, 3, MPI_LONG, &status));
    CHECK(file_bytes(name, bytes, sizeof bytes) == 2 + 20, "the file has %ld bytes", file_bytes(name, bytes, sizeof bytes));
    static const unsigned char strided[] = {0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf7};
    CHECK(!memcmp(bytes, strided, sizeof strided), "other bytes with gaps");
    OK(MPI_File_read_at_all(file, 0, found, 3, MPI_LONG, &status));
    CHECK(!memcmp(longs, found, sizeof longs), "read %ld %ld %ld", found[0], found[1], found[2]);
    OK(MPI_File_close(&file));
    MPI_Type_free(&view);
    MPI_Type_free(&record);
    unlink(name);
}

/* A representation that writes an int as six characters in octal. */
static int calls;

static int write_octal(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra)
{
    char text[16];
    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%06o", ((int *)user)[position + i]);
        memcpy((char *)file + 6 * i, text, 6);
    }
    calls += *(int *)extra;
    return type == MPI_INT ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int read_octal(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra)
{
    char text[7] = "";
    for (int i = 0; i < count; i++) {
        memcpy(text, (char *)file + 6 * i, 6);
        ((int *)user)[position + i] = (int)strtol(text, NULL, 8);
    }
    calls += *(int *)extra;
    return type == MPI_INT ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int octal_extent(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
    (void)extra;
    *extent = 6;
    return type == MPI_INT ? MPI_SUCCESS : MPI_ERR_TYPE;
}

static int no_extent(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
    (void)type, (void)extra;
    *extent = 0;
    return MPI_SUCCESS;
}

static void registered(const char *name)
{
    static int one = 1;
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    int memory[4] = {1, 64, 511, 8}, found[4] = {0};
    char bytes[64] = "";
    OK(MPI_Register_datarep("octal", read_octal, write_octal, octal_extent, &one));
    FAILS(MPI_Register_datarep("octal", read_octal, write_octal, octal_extent, &one), MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep("native", read_octal, write_octal, octal_extent, &one), MPI_ERR_DUP_DATAREP);
    FAILS(MPI_Register_datarep("", read_octal, write_octal, octal_extent, &one), MPI_ERR_ARG);
    OK(MPI_Register_datarep_c("plain", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, octal_extent, &one));
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "octal", MPI_INFO_NULL));
    OK(MPI_File_write(file, memory, 4, MPI_INT, &status));
    CHECK(status_bytes(&status) == 16, "wrote %ld bytes", status_bytes(&status));
    file_bytes(name, bytes, sizeof bytes);
    CHECK(!strncmp(bytes, "000001000100000777000010", 24), "the file has %.24s", bytes);
    OK(MPI_File_read_at(file, 1, found, 2, MPI_INT, &status));
    CHECK(found[0] == 64 && found[1] == 511, "read %d %d", found[0], found[1]);
    OK(MPI_File_iread_at(file, 2, found, 4, MPI_INT, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(status_bytes(&status) == 8 && found[1] == 8, "read %ld bytes, %d", status_bytes(&status), found[1]);
    CHECK(calls == 3, "the functions were called %d times", calls);
    FAILS(MPI_File_write(file, "abc", 3, MPI_CHAR, &status), MPI_ERR_CONVERSION);
    OK(MPI_Register_datarep("nothing", read_octal, write_octal, no_extent, &one));
    FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nothing", MPI_INFO_NULL), MPI_ERR_ARG);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    char name[600];
    snprintf(name, sizeof name, "%s-%d", file_name("representation"), check_rank);
    external(name);
    registered(name);
    return check_end();
}
