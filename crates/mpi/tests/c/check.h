/* What the test programs share: a check that says what failed, and a count of failures as the exit code. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);        \
            failures++;                                                             \
        }                                                                           \
    } while (0)

/* A call that must succeed. */
#define OK(call)                                                                    \
    do {                                                                            \
        int code_ = (call);                                                         \
        if (code_ != MPI_SUCCESS) {                                                 \
            printf("%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, code_);    \
            failures++;                                                             \
        }                                                                           \
    } while (0)

/* A call that must fail with an error class, the error handler being MPI_ERRORS_RETURN. */
#define FAILS(class_, call)                                                         \
    do {                                                                            \
        int code_ = (call), is_ = -1;                                               \
        MPI_Error_class(code_, &is_);                                               \
        if (is_ != (class_)) {                                                      \
            printf("%s:%d: %s returned class %d, not %s\n", __FILE__, __LINE__, #call, is_, #class_); \
            failures++;                                                             \
        }                                                                           \
    } while (0)

static inline void start(void)
{
    OK(MPI_Init(NULL, NULL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

static inline int finish(void)
{
    OK(MPI_Finalize());
    return failures ? 1 : 0;
}
#endif
