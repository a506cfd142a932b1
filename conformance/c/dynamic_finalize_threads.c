/* As dynamic_finalize.c, where threads may call MPI at once. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "dynamic_finalize.c"
