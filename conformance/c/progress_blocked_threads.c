/* As progress_blocked.c, where threads may call MPI at once. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "progress_blocked.c"
