/* A 3-D block distribution in a file: 512 x 256 x 256 doubles, 256 MiB, row by row. The two fastest
 * dimensions are divided among the ranks, so a rank's data are many short rows of the file. GB/s of all
 * ranks together.
 *
 *   write_all, read_all   collective, each rank its block through a view
 *   write, read           the same without the others
 *
 * The file is in BENCH_FILES (the current directory), open throughout, and most likely in the page cache:
 * nothing is synchronised. What was read is compared with what was written. */
#include "bench.h"

#define PLANES 512
#define ROWS 256
#define COLUMNS 256
#define FILE_BYTES ((size_t)PLANES * ROWS * COLUMNS * sizeof(double))

struct work {
    MPI_File file;
    double *block;
    int count;
    int is_collective, is_write;
};

static void must(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static void access_file(void *context, int repetitions)
{
    struct work *w = context;
    for (int i = 0; i < repetitions; i++) {
        MPI_Status *ignored = MPI_STATUS_IGNORE;
        if (w->is_write && w->is_collective)
            must(MPI_File_write_at_all(w->file, 0, w->block, w->count, MPI_DOUBLE, ignored), "write_at_all");
        else if (w->is_write)
            must(MPI_File_write_at(w->file, 0, w->block, w->count, MPI_DOUBLE, ignored), "write_at");
        else if (w->is_collective)
            must(MPI_File_read_at_all(w->file, 0, w->block, w->count, MPI_DOUBLE, ignored), "read_at_all");
        else must(MPI_File_read_at(w->file, 0, w->block, w->count, MPI_DOUBLE, ignored), "read_at");
    }
}

static double value(int rank, int index, int mark)
{
    return mark + rank * 1e9 + index;
}

static void measure(struct work *w, int is_collective, int mark)
{
    for (int i = 0; i < w->count; i++) w->block[i] = value(bench_rank, i, mark);
    w->is_collective = is_collective;
    w->is_write = 1;
    double gigabytes = (double)FILE_BYTES * 1e-9;
    double rate = gigabytes / bench_measure(access_file, w);
    bench_result(is_collective ? "write_all" : "write", FILE_BYTES, rate, "GB/s");
    memset(w->block, 0, (size_t)w->count * sizeof(double));
    MPI_Barrier(MPI_COMM_WORLD);
    w->is_write = 0;
    rate = gigabytes / bench_measure(access_file, w);
    bench_result(is_collective ? "read_all" : "read", FILE_BYTES, rate, "GB/s");
    for (int i = 0; i < w->count; i++)
        if (w->block[i] != value(bench_rank, i, mark)) {
            fprintf(stderr, "rank %d: element %d is wrong\n", bench_rank, i);
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
}

/* Where a rank's block lies in the file: at `place` on the grid of processes. */
static void block_of(const int grid[2], const int place[2], MPI_Datatype *view, int *count)
{
    int rows = ROWS / grid[0], columns = COLUMNS / grid[1];
    MPI_Type_create_subarray(3, (int[]){PLANES, ROWS, COLUMNS}, (int[]){PLANES, rows, columns},
                             (int[]){0, place[0] * rows, place[1] * columns}, MPI_ORDER_C, MPI_DOUBLE, view);
    MPI_Type_commit(view);
    *count = PLANES * rows * columns;
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    int grid[2] = {0, 0};
    MPI_Dims_create(bench_size, 2, grid);
    if (ROWS % grid[0] || COLUMNS % grid[1]) {
        if (bench_rank == 0) fprintf(stderr, "the number of ranks must be a power of two\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    char path[4096];
    const char *folder = getenv("BENCH_FILES");
    snprintf(path, sizeof path, "%s/ayatori-bench-files.tmp", folder ? folder : ".");
    struct work w = {0};
    MPI_Datatype view;
    block_of(grid, (int[]){bench_rank / grid[1], bench_rank % grid[1]}, &view, &w.count);
    w.block = (double *)bench_buffer((size_t)w.count * sizeof(double));
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    must(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &w.file), "open");
    must(MPI_File_set_view(w.file, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL), "set_view");
    measure(&w, 1, 1);
    measure(&w, 0, 2);
    must(MPI_File_close(&w.file), "close");
    MPI_Type_free(&view);
    free(w.block);
    MPI_Finalize();
    return 0;
}
