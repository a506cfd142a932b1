// Says which rank this is, of how many, and on which library.
#include <algorithm>
#include <iostream>
#include <mpi.h>
#include <string>

int main(int count, char **words) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, length;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_library_version(library, &length);
    std::string name(library, length);
    name.resize(std::min(name.find('\n'), name.size()));
    // In one piece, so that the ranks' lines stay whole.
    std::cout << std::to_string(rank) + " of " + std::to_string(size) + " on " + name + "\n";
    MPI_Finalize();
}
