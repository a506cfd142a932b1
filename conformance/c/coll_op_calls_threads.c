/* As coll_op_calls.c, where threads may call MPI at once. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_op_calls.c"
