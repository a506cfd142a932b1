/* Collective access (MPI-5.0 §14.4.5) through aggregators: block and cyclic distributions of arrays, holes that keep what was
 * there, overlapping writes, the end of the file in the middle; with few and many aggregators and small buffers. */
#include "file.h"

enum { X = 13, Y = 18, Z = 22, CELLS = X * Y * Z };

static unsigned cell(int x, int y, int z) { return 1 + (unsigned)((x * Y + y) * Z + z) * 2654435761u; }

static MPI_Info hints(const char *nodes, const char *buffer, const char *ways)
{
    MPI_Info info;
    MPI_Info_create(&info);
    if (nodes) MPI_Info_set(info, "cb_nodes", nodes);
    if (buffer) MPI_Info_set(info, "cb_buffer_size", buffer);
    MPI_Info_set(info, "romio_cb_write", ways);
    MPI_Info_set(info, "romio_cb_read", ways);
    return info;
}

static MPI_File open_with(const char *name, MPI_Info info)
{
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    return file;
}

/* A 3-D array over a grid of processes, each with a halo of one in memory. */
static void blocks(const char *name, MPI_Info info, int distribution)
{
    int grid[3] = {0, 0, 0}, sizes[] = {X, Y, Z}, kinds[3], arguments[3];
    MPI_Dims_create(check_size, 3, grid);
    for (int i = 0; i < 3; i++) {
        kinds[i] = distribution;
        arguments[i] = distribution == MPI_DISTRIBUTE_CYCLIC ? i + 1 : MPI_DISTRIBUTE_DFLT_DARG;
    }
    MPI_Datatype filetype;
    MPI_Type_create_darray(check_size, check_rank, 3, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_UNSIGNED, &filetype);
    MPI_Type_commit(&filetype);
    int bytes;
    MPI_Type_size(filetype, &bytes);
    int count = bytes / (int)sizeof(unsigned);

    /* The cells of this rank in order, by a walk over all. */
    unsigned *own = check_alloc(bytes + 4), *found = check_alloc(bytes + 4), *all = check_alloc(CELLS * sizeof *all);
    int at[3] = {check_rank / (grid[1] * grid[2]), check_rank / grid[2] % grid[1], check_rank % grid[2]}, n = 0;
    for (int x = 0; x < X; x++)
        for (int y = 0; y < Y; y++)
            for (int z = 0; z < Z; z++) {
                int index[] = {x, y, z}, mine = 1;
                for (int i = 0; i < 3; i++) {
                    int length = distribution == MPI_DISTRIBUTE_BLOCK ? (sizes[i] + grid[i] - 1) / grid[i] : i + 1;
                    mine &= index[i] / length % grid[i] == at[i];
                }
                if (mine) own[n++] = cell(x, y, z);
            }
    CHECK(n == count, "%d cells, the type has %d", n, count);

    MPI_File file = open_with(name, info);
    MPI_Status status;
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_set_view(file, 40, MPI_UNSIGNED, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, own, count, MPI_UNSIGNED, &status));
    CHECK(status_bytes(&status) == bytes, "wrote %ld of %d bytes", status_bytes(&status), bytes);
    OK(MPI_File_sync(file));
    OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    OK(MPI_File_read_all(file, found, count, MPI_UNSIGNED, &status));
    CHECK(status_bytes(&status) == bytes, "read %ld of %d bytes", status_bytes(&status), bytes);
    CHECK(!memcmp(own, found, bytes), "rank %d reads other cells than it wrote", check_rank);
    OK(MPI_File_set_view(file, 40, MPI_UNSIGNED, MPI_UNSIGNED, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(file, 0, all, CELLS, MPI_UNSIGNED, &status));
    for (int x = 0; x < X; x++)
        for (int y = 0; y < Y; y++)
            for (int z = 0; z < Z; z++)
                if (all[(x * Y + y) * Z + z] != cell(x, y, z)) {
                    CHECK(0, "cell %d %d %d is wrong", x, y, z);
                    x = X, y = Y, z = Z;
                }
    OK(MPI_File_close(&file));
    MPI_Type_free(&filetype);
    free(own);
    free(found);
    free(all);
}

/* Each rank writes every (2 * size)-th block; what is between stays. */
static void holes(const char *name, MPI_Info info)
{
    enum { BLOCK = 24, BLOCKS = 300 };
    long length = 2L * check_size * BLOCKS * BLOCK;
    unsigned char *before = check_alloc(length), *after = check_alloc(length), memory[BLOCK * BLOCKS];
    pattern_fill(before, length, 77);
    file_make(name, before, length);
    MPI_Datatype filetype, block;
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, 2 * check_size * BLOCK, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File file = open_with(name, info);
    OK(MPI_File_set_view(file, 2 * check_rank * BLOCK, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    pattern_fill(memory, sizeof memory, check_rank);
    OK(MPI_File_write_all(file, memory, sizeof memory, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < BLOCKS; i++)
        for (int rank = 0; rank < check_size; rank++)
            for (int j = 0; j < BLOCK; j++)
                before[((long)i * 2 * check_size + 2 * rank) * BLOCK + j] = pattern_byte(rank, (size_t)i * BLOCK + j);
    CHECK(file_bytes(name, after, length) == length, "the length has changed");
    CHECK(!memcmp(before, after, length), "blocks or holes are wrong");
    MPI_Barrier(MPI_COMM_WORLD);
    /* The same by one process at a time, with windows of the file through a buffer. */
    pattern_fill(memory, sizeof memory, check_rank + 50);
    OK(MPI_File_write_at(file, 0, memory, sizeof memory, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < BLOCKS; i++)
        for (int rank = 0; rank < check_size; rank++)
            for (int j = 0; j < BLOCK; j++)
                before[((long)i * 2 * check_size + 2 * rank) * BLOCK + j] = pattern_byte(rank + 50, (size_t)i * BLOCK + j);
    file_bytes(name, after, length);
    CHECK(!memcmp(before, after, length), "blocks or holes are wrong where each writes alone");
    MPI_Barrier(MPI_COMM_WORLD);

    /* The file ends in the middle of the pieces. */
    long end = length / 2 + 5, expected = 0;
    OK(MPI_File_set_size(file, end));
    for (long i = 0; i < BLOCKS; i++) {
        long begin = (i * 2 * check_size + 2 * check_rank) * BLOCK;
        if (begin < end) expected += end - begin < BLOCK ? end - begin : BLOCK;
    }
    MPI_Status status;
    memset(memory, 0xee, sizeof memory);
    OK(MPI_File_read_at_all(file, 0, memory, sizeof memory, MPI_BYTE, &status));
    CHECK(status_bytes(&status) == expected, "read %ld bytes, not %ld", status_bytes(&status), expected);
    CHECK(pattern_wrong(memory, expected, check_rank + 50) == -1, "what is there was read wrongly");
    int touched = 0;
    for (size_t i = expected; i < sizeof memory; i++) touched += memory[i] != 0xee;
    CHECK(!touched, "%d bytes behind the data were written", touched);
    OK(MPI_File_close(&file));
    MPI_Type_free(&block);
    MPI_Type_free(&filetype);
    free(before);
    free(after);
}

/* All write the same bytes in one call: each byte is one rank's. Some ranks have nothing. */
static void overlapping(const char *name, MPI_Info info)
{
    enum { LENGTH = 20000 };
    unsigned char *memory = check_alloc(LENGTH);
    MPI_File file = open_with(name, info);
    OK(MPI_File_set_size(file, 0));
    memset(memory, 1 + check_rank, LENGTH);
    int nothing = check_rank % 3 == 2;
    OK(MPI_File_write_at_all(file, 100, memory, nothing ? 0 : LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_sync(file));
    MPI_Status status;
    OK(MPI_File_read_at_all(file, 100, memory, nothing ? 0 : LENGTH, MPI_BYTE, &status));
    CHECK(status_bytes(&status) == (nothing ? 0 : LENGTH), "read %ld bytes", status_bytes(&status));
    for (int i = 0; i < LENGTH && !nothing; i++)
        if (memory[i] < 1 || memory[i] > check_size || memory[i] % 3 == 0) {
            CHECK(0, "byte %d is %d, which nobody wrote", i, memory[i]);
            break;
        }
    OK(MPI_File_close(&file));
    free(memory);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    const char *name = file_name("collective");
    const char *settings[][3] = {{NULL, NULL, "enable"}, {"1", "4096", "enable"}, {"2", "1000", "enable"},
                                 {"64", "100000", "enable"}, {NULL, NULL, "automatic"}, {NULL, NULL, "disable"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        MPI_Info info = hints(settings[i][0], settings[i][1], settings[i][2]);
        blocks(name, info, MPI_DISTRIBUTE_BLOCK);
        blocks(name, info, MPI_DISTRIBUTE_CYCLIC);
        holes(name, info);
        overlapping(name, info);
        MPI_Info_free(&info);
    }
    file_remove(name);
    return check_end();
}
