/* A generalized request of whose operation nothing is to be known. */
#ifndef AYATORI_GENERAL_H
#define AYATORI_GENERAL_H

#include <mpi.h>

static int general_query(void *state, MPI_Status *status)
{
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int general_free(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int general_cancel(void *state, int is_complete)
{
    (void)state, (void)is_complete;
    return MPI_SUCCESS;
}

/* Starts one. What the call returns. */
static int general_start(MPI_Request *request)
{
    return MPI_Grequest_start(general_query, general_free, general_cancel, NULL, request);
}

#endif
