/* Sentinels, strings, sizes: what both sets of symbols share.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "binding.h"

#ifndef AYATORI_FOREIGN
/* As compilers align common blocks. */
#define SENTINEL __attribute__((aligned(32)))
SENTINEL int ayatori_bottom_, ayatori_in_place_, ayatori_buffer_automatic_;
SENTINEL int ayatori_status_ignore_[8], ayatori_statuses_ignore_[8], ayatori_errcodes_ignore_[1];
SENTINEL int ayatori_unweighted_[1], ayatori_weights_empty_[1];
SENTINEL char ayatori_argv_null_[1], ayatori_argvs_null_[1];

/* The same for C programs that hand Fortran statuses on. */
MPI_Fint *MPI_F_STATUS_IGNORE = ayatori_status_ignore_, *MPI_F_STATUSES_IGNORE = ayatori_statuses_ignore_;
MPI_F08_status *MPI_F08_STATUS_IGNORE = (MPI_F08_status *)ayatori_status_ignore_;
MPI_F08_status *MPI_F08_STATUSES_IGNORE = (MPI_F08_status *)ayatori_statuses_ignore_;
#endif

char *text_in(char *few, size_t few_bytes, const char *text, size_t length, int strip)
{
    while (length > 0 && text[length - 1] == ' ') length--;
    while (strip && length > 0 && *text == ' ') {
        text++;
        length--;
    }
    char *copy = room(few, few_bytes, length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

void text_out(char *text, size_t length, const char *from)
{
    size_t used = strnlen(from, length);
    memcpy(text, from, used);
    memset(text + used, ' ', length - used);
}

size_t peers_of(MPI_Comm comm)
{
    int is_inter = 0, size = 0;
    if (PMPI_Comm_test_inter(comm, &is_inter) != MPI_SUCCESS) return 0;
    int code = is_inter ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size);
    return code == MPI_SUCCESS ? length_of(size) : 0;
}

/* The neighbours of a process in a virtual topology: those it receives from and those it sends to. */
static void neighbours(MPI_Comm comm, int *sources, int *destinations)
{
    int kind = MPI_UNDEFINED, rank = 0, weighted = 0;
    *sources = *destinations = 0;
    if (PMPI_Topo_test(comm, &kind) != MPI_SUCCESS) return;
    if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, sources, destinations, &weighted);
    } else if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, sources);
        *destinations = *sources *= 2;
    } else if (kind == MPI_GRAPH && PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS) {
        PMPI_Graph_neighbors_count(comm, rank, sources);
        *destinations = *sources;
    }
}

size_t sources_of(MPI_Comm comm)
{
    int sources, destinations;
    neighbours(comm, &sources, &destinations);
    return length_of(sources);
}

size_t destinations_of(MPI_Comm comm)
{
    int sources, destinations;
    neighbours(comm, &sources, &destinations);
    return length_of(destinations);
}
