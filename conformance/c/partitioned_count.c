/* The count of partitioned communication is an MPI_Count in all of its calls (MPI-5.0 4.2.1): one that does
 * not fit an int is not cut off. */
#include "check.h"

#define TAG 5

/* These are the prototypes of the standard; another one does not compile. */
int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                   MPI_Comm comm, MPI_Info info, MPI_Request *request);
int MPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Info info, MPI_Request *request);

/* Counts of which the lower 32 bits alone would be allowed. */
static const MPI_Count wrong[] = {-((MPI_Count)1 << 32), (MPI_Count)1 << 62};

int main(int argc, char **argv)
{
    int memory[4] = {0}, me;
    MPI_Request request;
    MPI_Comm w = MPI_COMM_WORLD;
    check_start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN));
    me = check_rank;
    for (int i = 0; i < 2; i++) {
        FAILS(MPI_Psend_init(memory, 4, wrong[i], MPI_INT, me, TAG, w, MPI_INFO_NULL, &request),
              MPI_ERR_COUNT);
        FAILS(MPI_Precv_init(memory, 4, wrong[i], MPI_INT, me, TAG, w, MPI_INFO_NULL, &request),
              MPI_ERR_COUNT);
    }
    return check_end();
}
