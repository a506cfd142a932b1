/* MPI_Init and MPI_Finalize and nothing between: `cargo xtask bench` times the launcher around it. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
