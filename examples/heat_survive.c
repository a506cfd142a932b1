/* The 2-D heat equation on a plate, on ranks that may die. Each rank has a band of rows. Every so many steps
 * it keeps a copy of its band and gives its right neighbour another one. When ranks die, those that are left
 * shrink the communicator, agree on the last step of which every band has a copy that lives, cut the plate
 * anew among themselves, and go on from there. The result is compared with the serial solution: both do the
 * same arithmetic, so it must be equal to the last bit.
 *
 *     ayatori run --survive -n 4 heat_survive [POINTS [STEPS [VICTIM STEP]...]]
 *
 * A plate of POINTS x POINTS, default 200, for STEPS steps, default 300; each VICTIM, a rank of
 * MPI_COMM_WORLD, kills itself at that step. Default: the last rank at a third, and the first one at two
 * thirds of the steps. Lost is a plate of which a rank and its right neighbour die between two copies. */
#include <math.h>
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIFFUSION 0.2
#define COPY_INTERVAL 20
#define VICTIMS_MAX 16

static int points = 200, steps = 300, world_rank;
static struct { int rank, step; } victims[VICTIMS_MAX];
static int victims_count;

/* A band of rows of the plate, with a row of halo above and below; columns have one on each side. */
struct band {
    int first, rows;
    double *now, *next;
};

/* The copies of two bands of the last two rounds of copying: of its own, and of its left neighbour's. A round
 * may be broken off by a death: then the one before counts. */
struct copy {
    int step, first, rows;
    double *data;
};
static struct copy copies[2][2];

static size_t width(void) { return (size_t)points + 2; }

static double initial(int row, int column)
{
    double x = (double)column / points, y = (double)row / points;
    return 20 + 60 * exp(-40 * ((x - 0.3) * (x - 0.3) + (y - 0.4) * (y - 0.4))) + sin(25 * x) * cos(17 * y);
}

static double *memory(size_t cells)
{
    double *p = calloc(cells ? cells : 1, sizeof(double));
    if (!p) MPI_Abort(MPI_COMM_WORLD, 3);
    return p;
}

static void cut(int rank, int size, int *first, int *rows)
{
    *first = (int)((long long)points * rank / size);
    *rows = (int)((long long)points * (rank + 1) / size) - *first;
}

static void make_band(struct band *b, int first, int rows)
{
    size_t cells = (size_t)(rows + 2) * width();
    free(b->now);
    free(b->next);
    *b = (struct band){first, rows, memory(cells), memory(cells)};
}

static void step_band(struct band *b)
{
    for (int row = 1; row <= b->rows; row++)
        for (int column = 1; column <= points; column++) {
            size_t at = (size_t)row * width() + (size_t)column;
            double sum = b->now[at - width()] + b->now[at + width()] + b->now[at - 1] + b->now[at + 1];
            b->next[at] = b->now[at] + DIFFUSION * (sum - 4 * b->now[at]);
        }
    double *done = b->now;
    b->now = b->next;
    b->next = done;
}

/* The halo. */
static int exchange(struct band *b, MPI_Comm comm)
{
    int rank, size, n = (int)width(), code;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    double *top = b->now, *bottom = b->now + (size_t)(b->rows + 1) * width();
    code = MPI_Sendrecv(top + width(), n, MPI_DOUBLE, up, 1, bottom, n, MPI_DOUBLE, down, 1, comm,
                        MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    return MPI_Sendrecv(bottom - width(), n, MPI_DOUBLE, down, 2, top, n, MPI_DOUBLE, up, 2, comm,
                        MPI_STATUS_IGNORE);
}

static void keep(struct copy *c, int step, int first, int rows, const double *data)
{
    free(c->data);
    *c = (struct copy){step, first, rows, memory((size_t)rows * width())};
    memcpy(c->data, data, (size_t)rows * width() * sizeof(double));
}

/* Keeps a copy, and gives one to the right neighbour. */
static int give_copies(struct band *b, int step, MPI_Comm comm)
{
    int rank, size, mine[2] = {b->first, b->rows}, its[2], code, round = step / COPY_INTERVAL % 2;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    keep(&copies[round][0], step, b->first, b->rows, b->now + width());
    copies[round][1].step = -1;
    code = MPI_Sendrecv(mine, 2, MPI_INT, right, 3, its, 2, MPI_INT, left, 3, comm, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    double *data = memory((size_t)its[1] * width());
    code = MPI_Sendrecv(b->now + width(), b->rows * (int)width(), MPI_DOUBLE, right, 4, data,
                        its[1] * (int)width(), MPI_DOUBLE, left, 4, comm, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) keep(&copies[round][1], step, its[0], its[1], data);
    free(data);
    return code;
}

/* Marks the rows of which this rank has a copy of a step. */
static void mark_rows(int step, int *have)
{
    memset(have, 0, (size_t)points * sizeof(int));
    for (int i = 0; i < 4; i++) {
        struct copy *c = &copies[i / 2][i % 2];
        for (int row = c->first; c->data && c->step == step && row < c->first + c->rows; row++) have[row] = 1;
    }
}

/* The step of the last round of copying from which the plate can be had again; -1: none. `owner` of each row:
 * who has it. */
static int find_copy(int *owner, int last, MPI_Comm comm)
{
    int rank, *have = malloc((size_t)points * sizeof(int));
    MPI_Comm_rank(comm, &rank);
    int oldest = last - 3 * COPY_INTERVAL > 0 ? last - 3 * COPY_INTERVAL : 0;
    for (int step = last / COPY_INTERVAL * COPY_INTERVAL; step >= oldest; step -= COPY_INTERVAL) {
        int whole = 1;
        mark_rows(step, have);
        for (int row = 0; row < points; row++) have[row] = have[row] ? rank : -1;
        if (MPI_Allreduce(have, owner, points, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS) break;
        for (int row = 0; row < points; row++) whole &= owner[row] >= 0;
        if (whole) {
            free(have);
            return step;
        }
    }
    free(have);
    return -1;
}

static const double *copied_row(int step, int row)
{
    for (int i = 0; i < 4; i++) {
        struct copy *c = &copies[i / 2][i % 2];
        if (c->data && c->step == step && row >= c->first && row < c->first + c->rows)
            return c->data + (size_t)(row - c->first) * width();
    }
    return NULL;
}

/* Every rank gets the rows of its new band from whoever has them. */
static int redistribute(struct band *b, int step, const int *owner, MPI_Comm comm)
{
    int rank, size, first, rows, code = MPI_SUCCESS;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    cut(rank, size, &first, &rows);
    make_band(b, first, rows);
    double *row_data = memory(width());
    for (int row = 0; row < points && code == MPI_SUCCESS; row++) {
        if (owner[row] == rank) memcpy(row_data, copied_row(step, row), width() * sizeof(double));
        code = MPI_Bcast(row_data, (int)width(), MPI_DOUBLE, owner[row], comm);
        if (row >= first && row < first + rows)
            memcpy(b->now + (size_t)(row - first + 1) * width(), row_data, width() * sizeof(double));
    }
    free(row_data);
    return code;
}

/* After a death: the communicator of those that live, and the plate as it was when it was copied last. The
 * step. */
static int recover(struct band *b, int last, MPI_Comm *comm)
{
    for (;;) {
        MPI_Comm shrunk;
        MPIX_Comm_revoke(*comm);
        if (MPIX_Comm_shrink(*comm, &shrunk) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 4);
        MPI_Comm_set_errhandler(shrunk, MPI_ERRORS_RETURN);
        if (*comm != MPI_COMM_WORLD) MPI_Comm_free(comm);
        *comm = shrunk;
        int rank, size, newest = -1, *owner = malloc((size_t)points * sizeof(int)), ok = 1;
        MPI_Comm_rank(shrunk, &rank);
        MPI_Comm_size(shrunk, &size);
        int step = -1;
        if (MPI_Allreduce(&last, &newest, 1, MPI_INT, MPI_MAX, shrunk) != MPI_SUCCESS) ok = 0;
        if (ok) step = find_copy(owner, newest, shrunk);
        int lost_data = ok && step < 0;
        if (step >= 0) ok = redistribute(b, step, owner, shrunk) == MPI_SUCCESS;
        else ok = 0;
        free(owner);
        int flag = ok | (lost_data ? 2 : 0), code = MPIX_Comm_agree(shrunk, &flag);
        if (code == MPI_SUCCESS && flag == 2) {
            if (rank == 0) fprintf(stderr, "heat_survive: a band and its copy are lost\n");
            MPI_Abort(MPI_COMM_WORLD, 5);
        }
        if (code == MPI_SUCCESS && (flag & 1)) {
            if (rank == 0) printf("heat: %d ranks go on from step %d\n", size, step);
            return step;
        }
    }
}

/* Whether the plate is the serial solution's, at rank 0. */
static int check(const struct band *b, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank) {
        MPI_Send(b->now + width(), b->rows * (int)width(), MPI_DOUBLE, 0, 5, comm);
        return 1;
    }
    struct band whole = {0};
    make_band(&whole, 0, points);
    for (int row = 0; row < points; row++)
        for (int column = 0; column < points; column++)
            whole.now[(size_t)(row + 1) * width() + (size_t)column + 1] = initial(row, column);
    for (int step = 0; step < steps; step++) step_band(&whole);
    int same = 1;
    double *plate = memory((size_t)points * width());
    memcpy(plate, b->now + width(), (size_t)b->rows * width() * sizeof(double));
    for (int other = 1; other < size; other++) {
        int first, rows;
        cut(other, size, &first, &rows);
        double *to = plate + (size_t)first * width();
        MPI_Recv(to, rows * (int)width(), MPI_DOUBLE, other, 5, comm, MPI_STATUS_IGNORE);
    }
    for (int row = 0; row < points; row++)
        same &= !memcmp(plate + (size_t)row * width() + 1, whole.now + (size_t)(row + 1) * width() + 1,
                        (size_t)points * sizeof(double));
    printf("heat: %d ranks left, %s\n", size, same ? "PASSED" : "FAILED");
    free(plate);
    free(whole.now);
    free(whole.next);
    return same;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) points = atoi(argv[1]);
    if (argc > 2) steps = atoi(argv[2]);
    for (int i = 3; i + 1 < argc && victims_count < VICTIMS_MAX; i += 2, victims_count++)
        victims[victims_count].rank = atoi(argv[i]), victims[victims_count].step = atoi(argv[i + 1]);
    if (argc <= 3 && size > 2) {
        victims[0].rank = size - 1, victims[0].step = steps / 3;
        victims[1].rank = 0, victims[1].step = 2 * steps / 3;
        victims_count = 2;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm comm = MPI_COMM_WORLD;
    struct band b = {0};
    int first, rows;
    cut(world_rank, size, &first, &rows);
    make_band(&b, first, rows);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < points; column++)
            b.now[(size_t)(row + 1) * width() + (size_t)column + 1] = initial(first + row, column);
    for (int step = 0, done = 0; !done;) {
        int code = MPI_SUCCESS;
        if (step % COPY_INTERVAL == 0 && step < steps) code = give_copies(&b, step, comm);
        for (int i = 0; i < victims_count; i++)
            if (victims[i].rank == world_rank && victims[i].step == step) kill(getpid(), SIGKILL);
        if (code == MPI_SUCCESS && step < steps) code = exchange(&b, comm);
        if (code == MPI_SUCCESS && step < steps) {
            step_band(&b);
            step++;
            continue;
        }
        /* A rank that has done its last step may still be needed. */
        if (code == MPI_SUCCESS) {
            int flag = 1;
            code = MPIX_Comm_agree(comm, &flag);
            done = code == MPI_SUCCESS && flag;
        } else {
            MPIX_Comm_revoke(comm);
            int flag = 0;
            MPIX_Comm_agree(comm, &flag);
        }
        if (!done) step = recover(&b, step, &comm);
    }
    int passed = check(&b, comm);
    MPI_Finalize();
    return !passed;
}
