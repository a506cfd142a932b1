/* Finds libmpi_abi.so.1 and its functions when this library is loaded.
 *
 * It is opened, not linked: both define MPI_Send, and what this one calls must be the other's.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE
#include "translate.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define LIBRARY "libmpi_abi.so.1"

extern HIDDEN const struct call {
    const char *name;
    void *at;
} calls[];
extern HIDDEN const size_t calls_count;

static void give_up(const char *why)
{
    fprintf(stderr, "ayatori: " TRANSLATOR " cannot be used: %s\n", why);
    _exit(127);
}

__attribute__((constructor)) static void load(void)
{
    /* By the run path, which leads to the library that this one was installed with. */
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) give_up(dlerror());
    for (size_t i = 0; i < calls_count; i++) {
        void *function = dlsym(library, calls[i].name);
        if (function == NULL) give_up(dlerror());
        memcpy(calls[i].at, &function, sizeof function);
    }
}

int refuse(const char *what)
{
    fprintf(stderr, "ayatori: %s has no translation from " TRANSLATOR " to the standard ABI of MPI\n", what);
    a_Comm_call_errhandler(A_MPI_COMM_SELF, A_MPI_ERR_UNSUPPORTED_OPERATION);
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

a_handle refuse_handle(const char *name, uintptr_t handle)
{
    /* Each name once; two threads at a time may say it twice. */
    static const char *said[16];
    size_t i = 0;
    while (i < 16 && said[i] != NULL && said[i] != name)
        i++;
    if (i == 16 || said[i] == name) return A_BAD(handle);
    said[i] = name;
    fprintf(stderr, "ayatori: %s has no translation from " TRANSLATOR " to the standard ABI of MPI\n", name);
    return A_BAD(handle);
}

void out_text(char *text, size_t max, const char *from, int *length)
{
    size_t used = strnlen(from, max - 1);
    memcpy(text, from, used);
    text[used] = '\0';
    if (length != NULL) *length = (int)used;
}
