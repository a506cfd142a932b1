/* Attributes, generalized requests and data representations of Fortran programs.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "callbacks.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Attributes. Cells lie in blocks that are never given back, so that the address of a cell says what it is: an attribute
 * of C whose address is in no block is no cell. */

#define BLOCK_CELLS 1000

struct block {
    struct block *next;
    struct attribute cells[BLOCK_CELLS];
};

static struct block *blocks;
/* Free cells; each holds the address of the next. */
static struct attribute *free_cells;

static int is_cell(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (struct block *block = blocks; block != NULL && !found; block = block->next) {
        uintptr_t first = (uintptr_t)block->cells;
        found = at >= first && at < first + sizeof block->cells;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

struct attribute *attribute_new(MPI_Aint value)
{
    pthread_mutex_lock(&lock);
    if (free_cells == NULL) {
        struct block *block = malloc(sizeof *block);
        if (block != NULL) {
            block->next = blocks;
            blocks = block;
            for (int i = 0; i < BLOCK_CELLS; i++) {
                block->cells[i].value = (MPI_Aint)free_cells;
                free_cells = &block->cells[i];
            }
        }
    }
    struct attribute *cell = free_cells;
    if (cell != NULL) {
        free_cells = (struct attribute *)cell->value;
        cell->value = value;
    }
    pthread_mutex_unlock(&lock);
    return cell;
}

void attribute_free(struct attribute *cell)
{
    if (cell == NULL) return;
    pthread_mutex_lock(&lock);
    cell->value = (MPI_Aint)free_cells;
    free_cells = cell;
    pthread_mutex_unlock(&lock);
}

static MPI_Aint value_of(const void *found)
{
    return is_cell(found) ? ((const struct attribute *)found)->value : (MPI_Aint)found;
}

MPI_Aint attribute_value(int keyval, void *found)
{
    switch (KEYVAL_OF_C(keyval)) {
    case MPI_TAG_UB: case MPI_IO: case MPI_HOST: case MPI_WTIME_IS_GLOBAL: case MPI_APPNUM:
    case MPI_LASTUSEDCODE: case MPI_UNIVERSE_SIZE: case MPI_WIN_DISP_UNIT: case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL:
        return *(int *)found;
    case MPI_WIN_SIZE:
        return *(MPI_Aint *)found;
    case MPI_WIN_BASE:
        return (MPI_Aint)found;
    default:
        return value_of(found);
    }
}

/* Attribute keys. */

static struct keyval *keyvals;

struct keyval *keyval_state(procedure copy, procedure del, MPI_Aint extra, int narrow)
{
    pthread_mutex_lock(&lock);
    struct keyval *state = keyvals;
    while (state != NULL &&
           (state->copy != copy || state->del != del || state->extra != extra || state->narrow != narrow)) {
        state = state->next;
    }
    if (state == NULL && (state = malloc(sizeof *state)) != NULL) {
        *state = (struct keyval){copy, del, extra, narrow, keyvals};
        keyvals = state;
    }
    pthread_mutex_unlock(&lock);
    return state;
}

typedef void copy_narrow(int *, int *, int *, int *, int *, int *, int *);
typedef void copy_wide(int *, int *, MPI_Aint *, MPI_Aint *, MPI_Aint *, int *, int *);
typedef void delete_narrow(int *, int *, int *, int *, int *);
typedef void delete_wide(int *, int *, MPI_Aint *, MPI_Aint *, int *);

static int copied(int object, int key, void *extra, void *in, void *out, int *flag)
{
    struct keyval *state = extra;
    MPI_Aint extra_state = state->extra, from = value_of(in), to = 0;
    int code = MPI_SUCCESS, is_copied = 0;
    if (state->narrow) {
        int narrow_extra = (int)extra_state, narrow_from = (int)from, narrow_to = 0;
        ((copy_narrow *)state->copy)(&object, &key, &narrow_extra, &narrow_from, &narrow_to, &is_copied, &code);
        to = narrow_to;
    } else {
        ((copy_wide *)state->copy)(&object, &key, &extra_state, &from, &to, &is_copied, &code);
    }
    *flag = is_copied != 0;
    if (code == MPI_SUCCESS && is_copied) {
        struct attribute *cell = attribute_new(to);
        if (cell == NULL) return MPI_ERR_NO_MEM;
        *(void **)out = cell;
    }
    return code;
}

static int deleted(int object, int key, void *value, void *extra)
{
    struct keyval *state = extra;
    MPI_Aint extra_state = state->extra, attribute = value_of(value);
    int code = MPI_SUCCESS;
    if (state->narrow) {
        int narrow_extra = (int)extra_state, narrow_attribute = (int)attribute;
        ((delete_narrow *)state->del)(&object, &key, &narrow_attribute, &narrow_extra, &code);
    } else {
        ((delete_wide *)state->del)(&object, &key, &attribute, &extra_state, &code);
    }
    if (code == MPI_SUCCESS && is_cell(value)) attribute_free(value);
    return code;
}

#define KEYVAL(kind, Handle)                                                               \
    int kind##_copy(Handle object, int key, void *extra, void *in, void *out, int *flag)   \
    {                                                                                      \
        return copied(of_##Handle(object), key, extra, in, out, flag);                     \
    }                                                                                      \
    int kind##_delete(Handle object, int key, void *value, void *extra)                    \
    {                                                                                      \
        return deleted(of_##Handle(object), key, value, extra);                            \
    }
KEYVAL(comm, MPI_Comm)
KEYVAL(type, MPI_Datatype)
KEYVAL(win, MPI_Win)

/* The predefined procedures, which programs may also call themselves. */

#define PREDEFINED_COPY(name, number, is_copied, result)                                                \
    void name(int *object, int *key, number *extra, number *in, number *out, int *flag, int *ierror);   \
    void name(int *object, int *key, number *extra, number *in, number *out, int *flag, int *ierror)    \
    {                                                                                                   \
        (void)object, (void)key, (void)extra, (void)in, (void)out;                                      \
        result;                                                                                         \
        *flag = is_copied;                                                                              \
        *ierror = MPI_SUCCESS;                                                                          \
    }
#define PREDEFINED_DELETE(name, number)                                                  \
    void name(int *object, int *key, number *value, number *extra, int *ierror);         \
    void name(int *object, int *key, number *value, number *extra, int *ierror)          \
    {                                                                                    \
        (void)object, (void)key, (void)value, (void)extra;                               \
        *ierror = MPI_SUCCESS;                                                           \
    }
PREDEFINED_COPY(mpi_null_copy_fn_, int, 0, )
PREDEFINED_COPY(mpi_comm_null_copy_fn_, MPI_Aint, 0, )
PREDEFINED_COPY(mpi_type_null_copy_fn_, MPI_Aint, 0, )
PREDEFINED_COPY(mpi_win_null_copy_fn_, MPI_Aint, 0, )
PREDEFINED_COPY(mpi_dup_fn_, int, 1, *out = *in)
PREDEFINED_COPY(mpi_comm_dup_fn_, MPI_Aint, 1, *out = *in)
PREDEFINED_COPY(mpi_type_dup_fn_, MPI_Aint, 1, *out = *in)
PREDEFINED_COPY(mpi_win_dup_fn_, MPI_Aint, 1, *out = *in)
PREDEFINED_DELETE(mpi_null_delete_fn_, int)
PREDEFINED_DELETE(mpi_comm_null_delete_fn_, MPI_Aint)
PREDEFINED_DELETE(mpi_type_null_delete_fn_, MPI_Aint)
PREDEFINED_DELETE(mpi_win_null_delete_fn_, MPI_Aint)

/* Generalized requests. */

struct grequest {
    void (*query)(MPI_Aint *, MPI_Status *, int *);
    void (*release)(MPI_Aint *, int *);
    void (*cancel)(MPI_Aint *, int *, int *);
    MPI_Aint *extra;
};

struct grequest *grequest_new(procedure query, procedure release, procedure cancel, MPI_Aint *extra)
{
    struct grequest *state = malloc(sizeof *state);
    if (state == NULL) return NULL;
    state->query = (void (*)(MPI_Aint *, MPI_Status *, int *))query;
    state->release = (void (*)(MPI_Aint *, int *))release;
    state->cancel = (void (*)(MPI_Aint *, int *, int *))cancel;
    state->extra = extra;
    return state;
}

int grequest_query(void *extra, MPI_Status *status)
{
    struct grequest *state = extra;
    int code = MPI_SUCCESS;
    state->query(state->extra, status, &code);
    return code;
}

int grequest_free(void *extra)
{
    struct grequest *state = extra;
    int code = MPI_SUCCESS;
    state->release(state->extra, &code);
    free(state);
    return code;
}

int grequest_cancel(void *extra, int complete)
{
    struct grequest *state = extra;
    int code = MPI_SUCCESS;
    state->cancel(state->extra, &complete, &code);
    return code;
}

/* Data representations. */

typedef void conversion(void *, int *, int *, void *, MPI_Offset *, MPI_Aint *, int *);
typedef void conversion_c(void *, int *, MPI_Count *, void *, MPI_Offset *, MPI_Aint *, int *);
typedef void extent_procedure(int *, MPI_Aint *, MPI_Aint *, int *);

struct datarep {
    procedure read, write, extent;
    MPI_Aint extra;
};

struct datarep *datarep_new(procedure read, procedure write, procedure extent, MPI_Aint extra)
{
    struct datarep *state = malloc(sizeof *state);
    if (state != NULL) *state = (struct datarep){read, write, extent, extra};
    return state;
}

/* Never called: registering one of them registers no conversion. */
conversion mpi_conversion_fn_null_;
void mpi_conversion_fn_null_(void *user, int *type, int *count, void *file, MPI_Offset *at, MPI_Aint *extra, int *ierror)
{
    (void)user, (void)type, (void)count, (void)file, (void)at, (void)extra;
    *ierror = MPI_SUCCESS;
}
conversion_c mpi_conversion_fn_null_c_;
void mpi_conversion_fn_null_c_(void *user, int *type, MPI_Count *count, void *file, MPI_Offset *at, MPI_Aint *extra,
                               int *ierror)
{
    (void)user, (void)type, (void)count, (void)file, (void)at, (void)extra;
    *ierror = MPI_SUCCESS;
}

int is_null_conversion(procedure given)
{
    return given == (procedure)mpi_conversion_fn_null_ || given == (procedure)mpi_conversion_fn_null_c_;
}

#define CONVERSION(name, field, number, type)                                                               \
    int name(void *user, MPI_Datatype datatype, number count, void *file, MPI_Offset position, void *extra) \
    {                                                                                                       \
        struct datarep *state = extra;                                                                      \
        int handle = of_MPI_Datatype(datatype), code = MPI_SUCCESS;                                         \
        ((type *)state->field)(user, &handle, &count, file, &position, &state->extra, &code);               \
        return code;                                                                                        \
    }
CONVERSION(datarep_read, read, int, conversion)
CONVERSION(datarep_write, write, int, conversion)
CONVERSION(datarep_read_c, read, MPI_Count, conversion_c)
CONVERSION(datarep_write_c, write, MPI_Count, conversion_c)

int datarep_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra)
{
    struct datarep *state = extra;
    int handle = of_MPI_Datatype(datatype), code = MPI_SUCCESS;
    ((extent_procedure *)state->extent)(&handle, extent, &state->extra, &code);
    return code;
}
