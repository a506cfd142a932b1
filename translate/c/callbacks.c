/* Functions of the user, called by the library with its own handles and codes.
 *
 * Where a callback has an extra state, that is a `struct` which has the user's function. The functions of
 * operations and of error handlers have none: each of the user's functions gets one of a fixed number of C
 * functions for the life of the process, which knows by its own place whose it is. SPDX-License-Identifier:
 * MIT OR Apache-2.0 */
#include "translate.h"

#include <pthread.h>

typedef void (*procedure)(void);

/* So many different functions of each sort: operations, operations with large counts, error handlers of each
 * kind. */
#define PLACES 256

/* The functions that have a place, in order. A place once given is never changed, so calls need no lock. A
 * procedure of Fortran gets the integer of a handle. */
struct places {
    procedure functions[PLACES];
    char is_fortran[PLACES];
    int count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The place of a function; -1 when all are taken. */
static int place_of(struct places *places, procedure function, int is_fortran)
{
    pthread_mutex_lock(&lock);
    int place = 0;
    while (place < places->count && places->functions[place] != function)
        place++;
    if (place == places->count) {
        if (place == PLACES) {
            place = -1;
        } else {
            places->functions[place] = function;
            places->is_fortran[place] = (char)is_fortran;
            places->count++;
        }
    }
    pthread_mutex_unlock(&lock);
    return place;
}

/* All places: M(0) M(1) ... */
#define FOUR(M, i) M(i##0) M(i##1) M(i##2) M(i##3)
#define SIXTEEN(M, i) FOUR(M, i##0) FOUR(M, i##1) FOUR(M, i##2) FOUR(M, i##3)
#define SIXTY_FOUR(M, i) SIXTEEN(M, i##0) SIXTEEN(M, i##1) SIXTEEN(M, i##2) SIXTEEN(M, i##3)
#define EVERY(M) SIXTY_FOUR(M, 0) SIXTY_FOUR(M, 1) SIXTY_FOUR(M, 2) SIXTY_FOUR(M, 3)
/* A place is written with four digits to the base of four. */
#define PLACE(name) \
    (((#name)[0] - '0') * 64 + ((#name)[1] - '0') * 16 + ((#name)[2] - '0') * 4 + ((#name)[3] - '0'))

/* Operations. */

#define OPERATION(sort, Count, Type) \
    static struct places sort##_places; \
    static void sort##_call(int place, void *in, void *inout, Count *length, const a_handle *datatype) \
    { \
        MPI_Datatype of = out_MPI_Datatype(*datatype); \
        int integer = sort##_places.is_fortran[place] ? integer_of_MPI_Datatype(of) : 0; \
        void *argument = sort##_places.is_fortran[place] ? (void *)&integer : (void *)&of; \
        ((Type *)sort##_places.functions[place])(in, inout, length, argument); \
    }
OPERATION(op, int, MPI_User_function)
OPERATION(op_c, MPI_Count, MPI_User_function_c)

#define OP(i) \
    static void op_##i(void *in, void *inout, int *length, a_handle *datatype) \
    { \
        op_call(PLACE(i), in, inout, length, datatype); \
    }
#define OP_C(i) \
    static void op_c_##i(void *in, void *inout, MPI_Count *length, a_handle *datatype) \
    { \
        op_c_call(PLACE(i), in, inout, length, datatype); \
    }
EVERY(OP)
EVERY(OP_C)

#define OP_ENTRY(i) (procedure) op_##i,
#define OP_C_ENTRY(i) (procedure) op_c_##i,
static const procedure op_table[PLACES] = {EVERY(OP_ENTRY)};
static const procedure op_c_table[PLACES] = {EVERY(OP_C_ENTRY)};

#define OP_CREATE(name, sort, Type) \
    static int sort##_new(Type *user_fn, int commute, MPI_Op *op, int is_fortran) \
    { \
        int place = user_fn != NULL ? place_of(&sort##_places, (procedure)user_fn, is_fortran) : -2; \
        if (place == -1) return refuse("MPI_" #name ": another of more than 256 different functions"); \
        void *function = place >= 0 ? (void *)sort##_table[place] : NULL; \
        a_handle a_op = 0; \
        int code = a_##sort##_create(function, commute, op != NULL ? &a_op : NULL); \
        if (code == 0) *op = out_MPI_Op(a_op); \
        return out_error(code); \
    } \
    int PMPI_##name(Type *user_fn, int commute, MPI_Op *op) \
    { \
        return sort##_new(user_fn, commute, op, 0); \
    } \
    extern int ayatori_fortran_##name(Type *, int, MPI_Op *); \
    int ayatori_fortran_##name(Type *user_fn, int commute, MPI_Op *op) \
    { \
        return sort##_new(user_fn, commute, op, 1); \
    } \
    ALIAS(MPI_##name)
#define a_op_create a_Op_create
#define a_op_c_create a_Op_create_c
OP_CREATE(Op_create, op, MPI_User_function)
OP_CREATE(Op_create_c, op_c, MPI_User_function_c)

/* Error handlers. What follows the code has no meaning in any library. */

#define ERRHANDLER(sort, Kind) \
    static struct places sort##_places; \
    static void sort##_call(int place, a_handle *object, int *code) \
    { \
        MPI_##Kind of = out_MPI_##Kind(*object); \
        int given = out_error(*code), foreign = given; \
        int integer = sort##_places.is_fortran[place] ? integer_of_MPI_##Kind(of) : 0; \
        void *argument = sort##_places.is_fortran[place] ? (void *)&integer : (void *)&of; \
        ((MPI_##Kind##_errhandler_function *)sort##_places.functions[place])(argument, &foreign); \
        if (foreign != given) *code = in_error(foreign); \
    } \
    EVERY(sort##_ONE) \
    static const procedure sort##_table[PLACES] = {EVERY(sort##_ENTRY)}; \
    static int sort##_new(MPI_##Kind##_errhandler_function *function, MPI_Errhandler *errhandler, \
                          int is_fortran) \
    { \
        int place = function != NULL ? place_of(&sort##_places, (procedure)function, is_fortran) : -2; \
        if (place == -1) { \
            return refuse("MPI_" #Kind "_create_errhandler: another of more than 256 different functions"); \
        } \
        void *known = place >= 0 ? (void *)sort##_table[place] : NULL; \
        a_handle a_errhandler = 0; \
        int code = a_##Kind##_create_errhandler(known, errhandler != NULL ? &a_errhandler : NULL); \
        if (code == 0) *errhandler = out_MPI_Errhandler(a_errhandler); \
        return out_error(code); \
    } \
    int PMPI_##Kind##_create_errhandler(MPI_##Kind##_errhandler_function *function, \
                                        MPI_Errhandler *errhandler) \
    { \
        return sort##_new(function, errhandler, 0); \
    } \
    extern int ayatori_fortran_##Kind##_create_errhandler(MPI_##Kind##_errhandler_function *, \
                                                          MPI_Errhandler *); \
    int ayatori_fortran_##Kind##_create_errhandler(MPI_##Kind##_errhandler_function *function, \
                                                   MPI_Errhandler *errhandler) \
    { \
        return sort##_new(function, errhandler, 1); \
    } \
    ALIAS(MPI_##Kind##_create_errhandler)
#define comm_ONE(i) \
    static void comm_##i(a_handle *x, int *code, ...) \
    { \
        comm_call(PLACE(i), x, code); \
    }
#define file_ONE(i) \
    static void file_##i(a_handle *x, int *code, ...) \
    { \
        file_call(PLACE(i), x, code); \
    }
#define win_ONE(i) \
    static void win_##i(a_handle *x, int *code, ...) \
    { \
        win_call(PLACE(i), x, code); \
    }
#define session_ONE(i) \
    static void session_##i(a_handle *x, int *code, ...) \
    { \
        session_call(PLACE(i), x, code); \
    }
#define comm_ENTRY(i) (procedure) comm_##i,
#define file_ENTRY(i) (procedure) file_##i,
#define win_ENTRY(i) (procedure) win_##i,
#define session_ENTRY(i) (procedure) session_##i,
static void comm_call(int place, a_handle *object, int *code);
static void file_call(int place, a_handle *object, int *code);
static void win_call(int place, a_handle *object, int *code);
static void session_call(int place, a_handle *object, int *code);
ERRHANDLER(comm, Comm)
ERRHANDLER(file, File)
ERRHANDLER(win, Win)
ERRHANDLER(session, Session)

/* Attributes. The state of a key lives as long as the process, because attributes outlive their key: keys
 * with the same functions and extra state share it. */

struct keyval {
    procedure copy, del;
    void *extra;
    struct keyval *next;
};

static struct keyval *keyvals;

/* NULL without memory. */
static struct keyval *keyval_of(procedure copy, procedure del, void *extra)
{
    pthread_mutex_lock(&lock);
    struct keyval *found = keyvals;
    while (found != NULL && (found->copy != copy || found->del != del || found->extra != extra)) {
        found = found->next;
    }
    if (found == NULL && (found = malloc(sizeof *found)) != NULL) {
        *found = (struct keyval){copy, del, extra, keyvals};
        keyvals = found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int code_in(int code)
{
    return code == MPI_SUCCESS ? 0 : in_error(code);
}

#define KEYVAL(Kind, Handle) \
    static int Kind##_copy(a_handle of, int keyval, void *state, void *in, void *out, int *flag) \
    { \
        const struct keyval *user = state; \
        return code_in(((MPI_##Kind##_copy_attr_function *)user->copy)(out_##Handle(of), out_keyval(keyval), \
                                                                       user->extra, in, out, flag)); \
    } \
    static int Kind##_delete(a_handle of, int keyval, void *value, void *state) \
    { \
        const struct keyval *user = state; \
        return code_in(((MPI_##Kind##_delete_attr_function *)user->del)( \
            out_##Handle(of), out_keyval(keyval), value, user->extra)); \
    } \
    int PMPI_##Kind##_create_keyval(MPI_##Kind##_copy_attr_function *copy, \
                                    MPI_##Kind##_delete_attr_function *del, int *keyval, void *extra_state) \
    { \
        struct keyval *user = keyval_of((procedure)copy, (procedure)del, extra_state); \
        if (user == NULL) return MPI_ERR_NO_MEM; \
        int is_dup = 0, a_keyval = 0; \
        int keeps_copy = is_predefined_copy((void *)copy, &is_dup); \
        void *a_copy = \
            keeps_copy ? (is_dup ? A_MPI_COMM_DUP_FN : A_MPI_COMM_NULL_COPY_FN) : (void *)Kind##_copy; \
        void *a_del = is_null_delete((void *)del) ? A_MPI_COMM_NULL_DELETE_FN : (void *)Kind##_delete; \
        int code = a_##Kind##_create_keyval(a_copy, a_del, keyval != NULL ? &a_keyval : NULL, user); \
        if (code == 0) *keyval = out_keyval(a_keyval); \
        return out_error(code); \
    } \
    ALIAS(MPI_##Kind##_create_keyval)
KEYVAL(Comm, MPI_Comm)
KEYVAL(Type, MPI_Datatype)
KEYVAL(Win, MPI_Win)

int PMPI_Keyval_create(MPI_Copy_function *copy_fn, MPI_Delete_function *delete_fn, int *keyval,
                       void *extra_state)
{
    return PMPI_Comm_create_keyval((MPI_Comm_copy_attr_function *)copy_fn,
                                   (MPI_Comm_delete_attr_function *)delete_fn, keyval, extra_state);
}
ALIAS(MPI_Keyval_create)

/* Generalized requests. */

struct grequest {
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *release;
    MPI_Grequest_cancel_function *cancel;
    void *extra;
};

static int grequest_query(void *state, a_status *a)
{
    const struct grequest *user = state;
    MPI_Status status;
    memset(&status, 0, sizeof status);
    a_status unset = {A_MPI_ANY_SOURCE, A_MPI_ANY_TAG, 0, {0}};
    out_status(&unset, &status);
    int code = user->query(user->extra, &status);
    in_status(&status, a);
    return code_in(code);
}

static int grequest_free(void *state)
{
    struct grequest *user = state;
    int code = user->release != NULL ? user->release(user->extra) : MPI_SUCCESS;
    free(user);
    return code_in(code);
}

static int grequest_cancel(void *state, int complete)
{
    const struct grequest *user = state;
    return code_in(user->cancel(user->extra, complete));
}

int PMPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                        MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
    struct grequest *user = malloc(sizeof *user);
    if (user == NULL) return MPI_ERR_NO_MEM;
    *user = (struct grequest){query_fn, free_fn, cancel_fn, extra_state};
    a_handle a_request = 0;
    int code = a_Grequest_start(query_fn != NULL ? (void *)grequest_query : NULL, grequest_free,
                                cancel_fn != NULL ? grequest_cancel : NULL, user,
                                request != NULL ? &a_request : NULL);
    if (code == 0) *request = out_MPI_Request(a_request);
    if (code != 0) free(user);
    return out_error(code);
}
ALIAS(MPI_Grequest_start)

/* Data representations. What is registered stays until the process ends. */

struct datarep {
    procedure read, write;
    MPI_Datarep_extent_function *extent;
    void *extra;
};

static int datarep_extent(a_handle datatype, MPI_Aint *extent, void *state)
{
    const struct datarep *user = state;
    return code_in(user->extent(out_MPI_Datatype(datatype), extent, user->extra));
}

#define CONVERSION(name, side, Count, Type) \
    static int name(void *userbuf, a_handle datatype, Count count, void *filebuf, MPI_Offset position, \
                    void *state) \
    { \
        const struct datarep *user = state; \
        return code_in(((Type *)user->side)(userbuf, out_MPI_Datatype(datatype), count, filebuf, position, \
                                            user->extra)); \
    }
#define DATAREP(name, suffix, Count, Type) \
    CONVERSION(datarep_read##suffix, read, Count, Type) \
    CONVERSION(datarep_write##suffix, write, Count, Type) \
    int P##name(const char *datarep, Type *read, Type *write, MPI_Datarep_extent_function *extent, \
                void *extra) \
    { \
        struct datarep *user = malloc(sizeof *user); \
        if (user == NULL) return MPI_ERR_NO_MEM; \
        *user = (struct datarep){(procedure)read, (procedure)write, extent, extra}; \
        int code = a_Register_datarep##suffix(datarep, read != NULL ? (void *)datarep_read##suffix : NULL, \
                                              write != NULL ? (void *)datarep_write##suffix : NULL, \
                                              extent != NULL ? (void *)datarep_extent : NULL, user); \
        if (code != 0) free(user); \
        return out_error(code); \
    } \
    ALIAS(name)
DATAREP(MPI_Register_datarep, , int, MPI_Datarep_conversion_function)
DATAREP(MPI_Register_datarep_c, _c, MPI_Count, MPI_Datarep_conversion_function_c)
