/* Says which rank this is, of how many, and on which library. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, length;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, "\n")] = '\0';
    printf("%d of %d on %s\n", rank, size, library);
    MPI_Finalize();
    return 0;
}
