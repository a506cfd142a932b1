/* mpi-ext.h: progress modes, gaps by communicator and by message. */
#include "check.h"
#include <mpi-ext.h>

#ifndef MPIX_AYATORI
#error "mpi-ext.h says whose it is"
#endif

static void gap_is(MPI_Comm comm, const char *wanted)
{
    MPI_Info info;
    char text[32] = "";
    int length = sizeof text, flag = 0;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, MPIX_INFO_GAP, &length, text, &flag);
    CHECK(flag == (wanted != NULL));
    if (wanted) CHECK(strcmp(text, wanted) == 0);
    MPI_Info_free(&info);
}

int main(void)
{
    int mode = -1, provided = -1, in = 0, out = 7;
    MPI_Comm twin, other;
    MPI_Request requests[2];
    MPI_Info info;
    CHECK(MPI_Init(NULL, NULL) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);

    /* Nobody to talk to: no help is needed. */
    CHECK(MPIX_Progress_get(&mode) == MPI_SUCCESS && mode == MPIX_PROGRESS_INLINE);
    CHECK(MPIX_Progress_set(MPIX_PROGRESS_ASSISTED, &provided) == MPI_SUCCESS && provided == MPIX_PROGRESS_INLINE);
    CHECK(MPIX_Progress_set(MPIX_PROGRESS_OFFLOAD, &provided) == MPI_SUCCESS && provided == MPIX_PROGRESS_INLINE);
    CHECK(PMPIX_Progress_set(17, &provided) == MPI_ERR_ARG);
    CHECK(MPIX_Progress_get(NULL) == MPI_ERR_ARG);

    MPI_Info_create(&info);
    MPI_Info_set(info, MPIX_INFO_GAP, "0.50");
    gap_is(MPI_COMM_WORLD, NULL);
    CHECK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &twin) == MPI_SUCCESS);
    gap_is(twin, "0.5");
    MPI_Info_set(info, MPIX_INFO_GAP, "2");
    CHECK(MPI_Comm_set_info(twin, info) == MPI_SUCCESS);
    gap_is(twin, "2");
    CHECK(MPI_Comm_idup(twin, &other, &requests[0]) == MPI_SUCCESS);
    CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    gap_is(other, "2");
    /* What is no gap is a hint that is not taken. */
    MPI_Info_set(info, MPIX_INFO_GAP, "-1");
    CHECK(MPI_Comm_set_info(other, info) == MPI_SUCCESS);
    gap_is(other, "2");
    MPI_Comm_free(&other);
    MPI_Comm_free(&twin);
    MPI_Info_free(&info);

    CHECK(MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]) == MPI_SUCCESS);
    CHECK(MPIX_Isend_paced(&out, 1, MPI_INT, 0, 1, 1.5, MPI_COMM_WORLD, &requests[1]) == MPI_SUCCESS);
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS && in == 7);
    CHECK(MPIX_Isend_paced(&out, 1, MPI_INT, 0, 1, -1.0, MPI_COMM_WORLD, &requests[1]) == MPI_ERR_ARG);
    CHECK(MPIX_Isend_paced(&out, 1, MPI_INT, 5, 1, 1.0, MPI_COMM_WORLD, &requests[1]) == MPI_ERR_RANK);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    return failures != 0;
}
