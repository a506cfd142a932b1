/* Shared by the programs about files: names, and what lies in a file by another way than MPI. */
#ifndef AYATORI_FILE_H
#define AYATORI_FILE_H

#include "check.h"
#include <unistd.h>

/* A name that all ranks know and no other program has. The file is not there yet. */
__attribute__((unused))
static const char *file_name(const char *base)
{
    static char name[512];
    if (check_rank == 0) {
        const char *folder = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/ayatori-%s-%ld", folder ? folder : "/tmp", base, (long)getpid());
        unlink(name);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    return name;
}

/* Makes a file of these bytes, by rank 0. */
__attribute__((unused))
static void file_make(const char *name, const void *bytes, size_t length)
{
    if (check_rank == 0) {
        FILE *file = fopen(name, "wb");
        if (!file || fwrite(bytes, 1, length, file) != length || fclose(file)) check_failed(__FILE__, __LINE__, "cannot make %s", name);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The length of a file; up to `most` of its bytes. */
__attribute__((unused))
static long file_bytes(const char *name, void *bytes, size_t most)
{
    FILE *file = fopen(name, "rb");
    if (!file) return -1;
    size_t got = fread(bytes, 1, most, file);
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    fclose(file);
    return got < most && (long)got != length ? -2 : length;
}

/* Removes it, once all ranks are here. */
__attribute__((unused))
static void file_remove(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) unlink(name);
}

/* Bytes that a status tells of. */
__attribute__((unused))
static long status_bytes(MPI_Status *status)
{
    MPI_Count bytes = -9;
    MPI_Get_elements_c(status, MPI_BYTE, &bytes);
    return (long)bytes;
}

#endif
