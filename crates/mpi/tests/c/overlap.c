/* The main thread is in a call, which has called back; meanwhile another thread asks what any may ask, and
 * then makes a call that the thread level does not allow it. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t both;
static int is_main = -1, level = -1, rank = -1;

static void *other(void *unused)
{
    (void)unused;
    for (int round = 0; round < 3; round++) {
        pthread_barrier_wait(&both);
        if (round == 0) MPI_Is_thread_main(&is_main);
        if (round == 1) MPI_Query_thread(&level);
        if (round == 2) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        pthread_barrier_wait(&both);
    }
    return NULL;
}

static void called_back(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
}

int main(void)
{
    pthread_t thread;
    MPI_Errhandler handler;
    MPI_Init(NULL, NULL);
    MPI_Comm_create_errhandler(called_back, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&thread, NULL, other, NULL)) return 2;
    for (int round = 0; round < 3; round++) MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    pthread_join(thread, NULL);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    if (is_main == 0 && level == MPI_THREAD_SINGLE && rank == 0) return 0;
    printf("main %d, level %d, rank %d\n", is_main, level, rank);
    return 1;
}
