/* The 2-D heat equation on a plate, on any number of ranks, checked against the serial solution.
 *
 * The plate is cut into a grid of rectangles, one per rank. In each step a rank sends the rim of its rectangle to its
 * four neighbours and receives theirs (the halo); the inner part is computed while the messages travel. Rank 0 then
 * solves the whole plate alone, gathers everybody's part and compares: both do the same arithmetic in the same order,
 * so the results must be equal to the last bit.
 *
 *     ayatori run -n 4 heat [POINTS [STEPS]]      a plate of POINTS x POINTS, default 1000, for STEPS steps, default 500 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIFFUSION 0.2 /* dt/dx^2 times the material's constant; stable up to 0.25 */

struct plate {
    int rows, columns;      /* without the halo of one point on each side */
    int first_row, first_column;
    double *now, *next;
};

#define AT(p, field, row, column) ((p)->field[((size_t)(row) + 1) * ((size_t)(p)->columns + 2) + (size_t)(column) + 1])

/* A hot spot, a cold spot and a wavy background: every point is different. */
static double initial(int row, int column, int points)
{
    double x = (double)column / points, y = (double)row / points;
    double hot = (x - 0.3) * (x - 0.3) + (y - 0.4) * (y - 0.4), cold = (x - 0.7) * (x - 0.7) + (y - 0.6) * (y - 0.6);
    return 20 + 60 * exp(-40 * hot) - 30 * exp(-60 * cold) + sin(25 * x) * cos(17 * y);
}

static void plate_make(struct plate *p, int rows, int columns, int first_row, int first_column, int points)
{
    size_t cells = ((size_t)rows + 2) * ((size_t)columns + 2);
    *p = (struct plate){rows, columns, first_row, first_column, calloc(cells, sizeof(double)),
                        calloc(cells, sizeof(double))};
    if (!p->now || !p->next) {
        fprintf(stderr, "heat: no memory for %d x %d points\n", rows, columns);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++)
            AT(p, now, row, column) = initial(first_row + row, first_column + column, points);
}

/* One step of the rectangle [top, bottom) x [left, right). Outside the plate it is 0 degrees. */
static void step(struct plate *p, int top, int bottom, int left, int right)
{
    for (int row = top; row < bottom; row++)
        for (int column = left; column < right; column++) {
            double here = AT(p, now, row, column);
            double sides = AT(p, now, row - 1, column) + AT(p, now, row + 1, column);
            sides += AT(p, now, row, column - 1) + AT(p, now, row, column + 1);
            AT(p, next, row, column) = here + DIFFUSION * (sides - 4 * here);
        }
}

static void swap(struct plate *p)
{
    double *old = p->now;
    p->now = p->next;
    p->next = old;
}

/* The process grid: as square as the number of ranks allows. */
static void grid(int ranks, int *down, int *across)
{
    *down = (int)sqrt((double)ranks);
    while (ranks % *down) (*down)--;
    *across = ranks / *down;
}

/* Where part `i` of `parts` begins when `points` are dealt out as evenly as possible. */
static int begin(int i, int parts, int points) { return (int)((long)i * points / parts); }

enum { UP, DOWN, LEFT, RIGHT, SIDES };

struct halo {
    int neighbours[SIDES];
    double *out[2], *in[2]; /* columns are not contiguous: LEFT and RIGHT go through these */
};

static void halo_start(struct plate *p, struct halo *h, MPI_Request *requests)
{
    double *rims[] = {&AT(p, now, 0, 0), &AT(p, now, p->rows - 1, 0), h->out[0], h->out[1]};
    double *halos[] = {&AT(p, now, -1, 0), &AT(p, now, p->rows, 0), h->in[0], h->in[1]};
    for (int row = 0; row < p->rows; row++) {
        h->out[0][row] = AT(p, now, row, 0);
        h->out[1][row] = AT(p, now, row, p->columns - 1);
    }
    for (int side = 0; side < SIDES; side++) {
        int count = side < LEFT ? p->columns : p->rows, there = side ^ 1; /* my upper rim is their lower halo */
        MPI_Irecv(halos[side], count, MPI_DOUBLE, h->neighbours[side], side, MPI_COMM_WORLD, requests++);
        MPI_Isend(rims[side], count, MPI_DOUBLE, h->neighbours[side], there, MPI_COMM_WORLD, requests++);
    }
}

static void halo_finish(struct plate *p, struct halo *h, MPI_Request *requests)
{
    MPI_Waitall(2 * SIDES, requests, MPI_STATUSES_IGNORE);
    for (int row = 0; row < p->rows; row++) {
        if (h->neighbours[LEFT] != MPI_PROC_NULL) AT(p, now, row, -1) = h->in[0][row];
        if (h->neighbours[RIGHT] != MPI_PROC_NULL) AT(p, now, row, p->columns) = h->in[1][row];
    }
}

/* All steps on this rank's part; the seconds it took. */
static double solve(struct plate *p, struct halo *h, int steps)
{
    MPI_Request requests[2 * SIDES];
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < steps; i++) {
        halo_start(p, h, requests);
        step(p, 1, p->rows - 1, 1, p->columns - 1);
        halo_finish(p, h, requests);
        step(p, 0, 1, 0, p->columns);
        if (p->rows > 1) step(p, p->rows - 1, p->rows, 0, p->columns);
        step(p, 1, p->rows - 1, 0, 1);
        if (p->columns > 1) step(p, 1, p->rows - 1, p->columns - 1, p->columns);
        swap(p);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - start;
}

/* Compares one rank's part with the whole plate: the number of points that differ in any bit. */
static long differences(const struct plate *whole, const double *part, const int *place)
{
    long count = 0;
    for (int row = 0; row < place[2]; row++)
        for (int column = 0; column < place[3]; column++) {
            double wanted = AT(whole, now, place[0] + row, place[1] + column);
            if (memcmp(&wanted, &part[(size_t)row * (size_t)place[3] + (size_t)column], sizeof wanted)) count++;
        }
    return count;
}

/* Sends this rank's part to rank 0, which compares all of them with the serial solution. */
static long verify(struct plate *p, const struct plate *whole, int rank, int ranks)
{
    int place[4] = {p->first_row, p->first_column, p->rows, p->columns};
    size_t cells = (size_t)p->rows * (size_t)p->columns;
    double *part = malloc(sizeof(double) * (cells + 1));
    long wrong = 0;
    for (int row = 0; row < p->rows; row++)
        memcpy(part + (size_t)row * (size_t)p->columns, &AT(p, now, row, 0), sizeof(double) * (size_t)p->columns);
    if (rank == 0) wrong = differences(whole, part, place);
    for (int other = 1; other < ranks; other++) {
        if (rank == other) {
            MPI_Send(place, 4, MPI_INT, 0, 10, MPI_COMM_WORLD);
            MPI_Send(part, (int)cells, MPI_DOUBLE, 0, 11, MPI_COMM_WORLD);
        } else if (rank == 0) {
            MPI_Recv(place, 4, MPI_INT, other, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            cells = (size_t)place[2] * (size_t)place[3];
            part = realloc(part, sizeof(double) * (cells + 1));
            MPI_Recv(part, (int)cells, MPI_DOUBLE, other, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            wrong += differences(whole, part, place);
        }
    }
    free(part);
    return wrong;
}

/* Rank 0 solves the whole plate alone: the reference, and the time to compare with. */
static double serial(struct plate *whole, int points, int steps)
{
    plate_make(whole, points, points, 0, 0, points);
    double start = MPI_Wtime();
    for (int i = 0; i < steps; i++) {
        step(whole, 0, points, 0, points);
        swap(whole);
    }
    return MPI_Wtime() - start;
}

int main(int argc, char **argv)
{
    int rank, ranks, down, across, points = argc > 1 ? atoi(argv[1]) : 1000, steps = argc > 2 ? atoi(argv[2]) : 500;
    struct plate mine, whole = {0};
    struct halo h;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    grid(ranks, &down, &across);
    if (points < across || points < 3 || points > 20000 || steps < 1) {
        if (rank == 0) fprintf(stderr, "heat: %d points and %d steps do not suit %d ranks\n", points, steps, ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int i = rank / across, j = rank % across, top = begin(i, down, points), left = begin(j, across, points);
    plate_make(&mine, begin(i + 1, down, points) - top, begin(j + 1, across, points) - left, top, left, points);
    h.neighbours[UP] = i > 0 ? rank - across : MPI_PROC_NULL;
    h.neighbours[DOWN] = i + 1 < down ? rank + across : MPI_PROC_NULL;
    h.neighbours[LEFT] = j > 0 ? rank - 1 : MPI_PROC_NULL;
    h.neighbours[RIGHT] = j + 1 < across ? rank + 1 : MPI_PROC_NULL;
    for (int k = 0; k < 2; k++) {
        h.out[k] = calloc((size_t)mine.rows, sizeof(double));
        h.in[k] = calloc((size_t)mine.rows, sizeof(double));
    }
    double parallel_s = solve(&mine, &h, steps);
    if (rank == 0) printf("heat: %d x %d points, %d steps, %d ranks as %d x %d\n", points, points, steps, ranks, down, across);
    double serial_s = rank == 0 ? serial(&whole, points, steps) : 0;
    long wrong = verify(&mine, &whole, rank, ranks);
    if (rank == 0) {
        printf("heat: %.3f s in parallel, %.3f s on one rank, speed-up %.2f\n", parallel_s, serial_s, serial_s / parallel_s);
        if (wrong) printf("heat: FAILED, %ld points differ from the serial solution\n", wrong);
        else printf("heat: PASSED, all %ld points equal the serial solution to the last bit\n", (long)points * points);
        fflush(stdout);
    }
    MPI_Bcast(&wrong, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong != 0;
}
