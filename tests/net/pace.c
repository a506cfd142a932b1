/* Rank 0 sends rank 1 long messages: unpaced, by MPIX_Isend_paced, on a communicator with a gap, unpaced again.
 * Prints RESULT <how> <bytes> <rate> GB/s. The gap, in packet times, is the argument. */
#include "../../bench/bench.h"

#include <mpi-ext.h>

#define MESSAGES 12
#define BYTES (4 << 20)

static char *buffer;

static void stream(const char *name, MPI_Comm comm, double gap)
{
    MPI_Barrier(comm);
    double begin = MPI_Wtime();
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        if (bench_rank == 1)
            MPI_Irecv(buffer, BYTES, MPI_CHAR, 0, 1, comm, &request);
        else if (gap > 0)
            MPIX_Isend_paced(buffer, BYTES, MPI_CHAR, 1, 1, gap, comm, &request);
        else
            MPI_Isend(buffer, BYTES, MPI_CHAR, 1, 1, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(comm);
    bench_result(name, BYTES, MESSAGES * (double)BYTES / (MPI_Wtime() - begin) * 1e-9, "GB/s");
}

int main(int argc, char **argv)
{
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    const char *gap = argc > 1 ? argv[1] : "9";
    MPI_Info info;
    MPI_Comm paced;
    buffer = bench_buffer(BYTES);
    MPI_Info_create(&info);
    MPI_Info_set(info, MPIX_INFO_GAP, gap);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &paced);
    stream("warm", MPI_COMM_WORLD, 0);
    stream("default", MPI_COMM_WORLD, 0);
    stream("by_message", MPI_COMM_WORLD, atof(gap));
    stream("by_communicator", paced, 0);
    stream("default_again", MPI_COMM_WORLD, 0);
    MPI_Comm_free(&paced);
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
