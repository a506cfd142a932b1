/* A word that the ranks of one machine share outside of MPI, so that a rank that makes no call of MPI can still be told
 * something: a test then waits for the event itself and not for a time. */
#ifndef AYATORI_ASIDE_H
#define AYATORI_ASIDE_H

#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Hang limit of a wait for the word, in seconds. Nothing is measured with it. */
#define ASIDE_LIMIT_S 100

static volatile int *aside_word;

/* Maps the word, 0 at first. Collective over the world. Whether all ranks share it: they are on one machine. */
__attribute__((unused))
static int aside_open(void)
{
    char path[] = "/tmp/ayatori-check-XXXXXX";
    int file = check_rank == 0 ? mkstemp(path) : -1, is_open, are_all_open = 0;
    if (file >= 0 && ftruncate(file, sizeof(int))) close(file), file = -1;
    OK(MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (check_rank != 0) file = open(path, O_RDWR);
    void *memory = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    is_open = memory != MAP_FAILED;
    if (is_open) aside_word = memory;
    if (file >= 0) close(file);
    OK(MPI_Allreduce(&is_open, &are_all_open, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (check_rank == 0) unlink(path);
    return are_all_open;
}

/* Computes, without a call of MPI, until the word is at least `value`. Whether it came to that. */
__attribute__((unused))
static int aside_compute_until(int value)
{
    time_t end = time(NULL) + ASIDE_LIMIT_S;
    while (*aside_word < value)
        if (time(NULL) > end) return 0;
    return 1;
}

#endif
