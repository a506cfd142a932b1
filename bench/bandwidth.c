/* Windowed bandwidth: 16 messages in flight, then one small answer. GB/s of payload.
 *
 *   bandwidth     one way
 *   bibandwidth   both ways
 *
 * Usage: bandwidth [NAME …]; with names, only those. BENCH_SIZE: only messages of so many bytes. */
#include "bench.h"

#define WINDOW 16

struct stream { char *out, *in; int bytes; };

static void one_way(void *context, int repetitions)
{
    struct stream *s = context;
    MPI_Request requests[WINDOW];
    char answer = 0;
    for (int i = 0; i < repetitions; i++) {
        for (int w = 0; w < WINDOW; w++) {
            char *place = s->out + (size_t)w * (size_t)s->bytes;
            if (bench_rank == 0)
                MPI_Isend(place, s->bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[w]);
            else
                MPI_Irecv(place, s->bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[w]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (bench_rank == 0)
            MPI_Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
}

static void both_ways(void *context, int repetitions)
{
    struct stream *s = context;
    MPI_Request requests[2 * WINDOW];
    int other = 1 - bench_rank;
    for (int i = 0; i < repetitions; i++) {
        for (int w = 0; w < WINDOW; w++) {
            size_t place = (size_t)w * (size_t)s->bytes;
            MPI_Irecv(s->in + place, s->bytes, MPI_CHAR, other, 3, MPI_COMM_WORLD, &requests[w]);
        }
        for (int w = 0; w < WINDOW; w++) {
            size_t place = (size_t)w * (size_t)s->bytes;
            MPI_Isend(s->out + place, s->bytes, MPI_CHAR, other, 3, MPI_COMM_WORLD, &requests[WINDOW + w]);
        }
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = {1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!bench_wants(sizes[i])) continue;
        size_t all = (size_t)sizes[i] * WINDOW;
        struct stream s = {bench_buffer(all), bench_buffer(all), sizes[i]};
        size_t bytes = (size_t)sizes[i];
        if (bench_wants_name(argc, argv, "bandwidth"))
            bench_result("bandwidth", bytes, (double)all / bench_measure(one_way, &s) * 1e-9, "GB/s");
        if (bench_wants_name(argc, argv, "bibandwidth"))
            bench_result("bibandwidth", bytes, 2 * (double)all / bench_measure(both_ways, &s) * 1e-9, "GB/s");
        free(s.out);
        free(s.in);
    }
    MPI_Finalize();
    return 0;
}
