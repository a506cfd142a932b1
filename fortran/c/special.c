/* Functions whose Fortran form does not follow from the C prototype by rule. Compiled twice, see binding.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "callbacks.h"

/* Environment. */

void F(init)(int *ierror);
void F(init)(int *ierror)
{
    *ierror = C(Init)(NULL, NULL);
}

void F(init_thread)(const int *required, int *provided, int *ierror);
void F(init_thread)(const int *required, int *provided, int *ierror)
{
    *ierror = C(Init_thread)(NULL, NULL, *required, provided);
}

void F(pcontrol)(const int *level);
void F(pcontrol)(const int *level)
{
    C(Pcontrol)(*level);
}

double F(wtime)(void);
double F(wtime)(void)
{
    return C(Wtime)();
}

double F(wtick)(void);
double F(wtick)(void)
{
    return C(Wtick)();
}

MPI_Aint F(aint_add)(const MPI_Aint *base, const MPI_Aint *disp);
MPI_Aint F(aint_add)(const MPI_Aint *base, const MPI_Aint *disp)
{
    return C(Aint_add)(*base, *disp);
}

MPI_Aint F(aint_diff)(const MPI_Aint *addr1, const MPI_Aint *addr2);
MPI_Aint F(aint_diff)(const MPI_Aint *addr1, const MPI_Aint *addr2)
{
    return C(Aint_diff)(*addr1, *addr2);
}

/* Info. Lengths in Fortran do not count the end of a C string. */

void F(info_create_env)(int *info, int *ierror);
void F(info_create_env)(int *info, int *ierror)
{
    MPI_Info made = MPI_INFO_NULL;
    int code = C(Info_create_env)(0, NULL, &made);
    if (code == MPI_SUCCESS) *info = of_MPI_Info(made);
    *ierror = code;
}

void F(info_get)(const int *info, const char *key, const int *valuelen, char *value, int *flag, int *ierror,
                 size_t length_key, size_t length_value);
void F(info_get)(const int *info, const char *key, const int *valuelen, char *value, int *flag, int *ierror,
                 size_t length_key, size_t length_value)
{
    char few_key[FEW_CHARS], few[FEW_CHARS];
    size_t bytes = length_of(*valuelen) + 1;
    char *c_key = text_in(few_key, sizeof few_key, key, length_key, 1);
    char *found = room(few, sizeof few, bytes);
    int code = MPI_ERR_NO_MEM, is_set = 0;
    if (c_key != NULL && found != NULL) {
        code = C(Info_get)(to_MPI_Info(*info), c_key, *valuelen, found, &is_set);
        if (code == MPI_SUCCESS && is_set) text_out(value, length_value, found);
        if (code == MPI_SUCCESS) *flag = is_set;
    }
    leave(few_key, c_key);
    leave(few, found);
    *ierror = code;
}

void F(info_get_string)(const int *info, const char *key, int *buflen, char *value, int *flag, int *ierror,
                        size_t length_key, size_t length_value);
void F(info_get_string)(const int *info, const char *key, int *buflen, char *value, int *flag, int *ierror,
                        size_t length_key, size_t length_value)
{
    char few_key[FEW_CHARS], few[FEW_CHARS];
    int length = *buflen > 0 ? *buflen + 1 : *buflen;
    char *c_key = text_in(few_key, sizeof few_key, key, length_key, 1);
    char *found = room(few, sizeof few, length_of(length) + 1);
    int code = MPI_ERR_NO_MEM, is_set = 0;
    if (c_key != NULL && found != NULL) {
        code = C(Info_get_string)(to_MPI_Info(*info), c_key, &length, found, &is_set);
        if (code == MPI_SUCCESS && is_set && *buflen > 0) text_out(value, length_value, found);
        if (code == MPI_SUCCESS && is_set) *buflen = length > 0 ? length - 1 : length;
        if (code == MPI_SUCCESS) *flag = is_set;
    }
    leave(few_key, c_key);
    leave(few, found);
    *ierror = code;
}

void F(session_get_nth_pset)(const int *session, const int *info, const int *n, int *pset_len, char *pset_name,
                             int *ierror, size_t length_pset_name);
void F(session_get_nth_pset)(const int *session, const int *info, const int *n, int *pset_len, char *pset_name,
                             int *ierror, size_t length_pset_name)
{
    char few[FEW_CHARS];
    int length = *pset_len > 0 ? *pset_len + 1 : *pset_len;
    char *found = room(few, sizeof few, length_of(length) + 1);
    int code = MPI_ERR_NO_MEM;
    if (found != NULL) {
        code = C(Session_get_nth_pset)(to_MPI_Session(*session), to_MPI_Info(*info), *n, &length, found);
        if (code == MPI_SUCCESS && *pset_len > 0) text_out(pset_name, length_pset_name, found);
        if (code == MPI_SUCCESS) *pset_len = length > 0 ? length - 1 : length;
    }
    leave(few, found);
    *ierror = code;
}

/* Buffers. The old interfaces have a choice argument where the address would be: it is not written. */

#define DETACH(name, Name, PARAMETER, ARGUMENT)                                          \
    void F(name)(PARAMETER void *buffer_addr, int *size, int *ierror);                   \
    void F(name)(PARAMETER void *buffer_addr, int *size, int *ierror)                    \
    {                                                                                    \
        void *detached;                                                                  \
        (void)buffer_addr;                                                               \
        *ierror = C(Name)(ARGUMENT &detached, size);                                     \
    }                                                                                    \
    void F(name##_cptr)(PARAMETER void **buffer_addr, int *size, int *ierror);           \
    void F(name##_cptr)(PARAMETER void **buffer_addr, int *size, int *ierror)            \
    {                                                                                    \
        *ierror = C(Name)(ARGUMENT buffer_addr, size);                                   \
    }                                                                                    \
    void F(name##_c)(PARAMETER void **buffer_addr, MPI_Count *size, int *ierror);        \
    void F(name##_c)(PARAMETER void **buffer_addr, MPI_Count *size, int *ierror)         \
    {                                                                                    \
        *ierror = C(Name##_c)(ARGUMENT buffer_addr, size);                               \
    }
DETACH(buffer_detach, Buffer_detach, , )
#define OF_COMM const int *comm,
#define THE_COMM to_MPI_Comm(*comm),
DETACH(comm_detach_buffer, Comm_detach_buffer, OF_COMM, THE_COMM)
#define OF_SESSION const int *session,
#define THE_SESSION to_MPI_Session(*session),
DETACH(session_detach_buffer, Session_detach_buffer, OF_SESSION, THE_SESSION)

/* Attributes: see attributes.c. */

void F(attr_put)(const int *comm, const int *keyval, const int *value, int *ierror);
void F(attr_put)(const int *comm, const int *keyval, const int *value, int *ierror)
{
    struct attribute *cell = attribute_new(*value);
    int code = cell == NULL ? MPI_ERR_NO_MEM : C(Attr_put)(to_MPI_Comm(*comm), *keyval, cell);
    if (code != MPI_SUCCESS) attribute_free(cell);
    *ierror = code;
}

void F(attr_get)(const int *comm, const int *keyval, int *value, int *flag, int *ierror);
void F(attr_get)(const int *comm, const int *keyval, int *value, int *flag, int *ierror)
{
    void *found = NULL;
    int code = C(Attr_get)(to_MPI_Comm(*comm), *keyval, &found, flag);
    if (code == MPI_SUCCESS && *flag) *value = (int)attribute_value(*keyval, found);
    *ierror = code;
}

#define ATTRIBUTES(kind, Kind, handle, Handle)                                                         \
    void F(kind##_set_attr)(const int *handle, const int *keyval, const MPI_Aint *value, int *ierror); \
    void F(kind##_set_attr)(const int *handle, const int *keyval, const MPI_Aint *value, int *ierror)  \
    {                                                                                                  \
        struct attribute *cell = attribute_new(*value);                                                \
        int code = MPI_ERR_NO_MEM;                                                                     \
        if (cell != NULL) code = C(Kind##_set_attr)(to_##Handle(*handle), *keyval, cell);              \
        if (code != MPI_SUCCESS) attribute_free(cell);                                                 \
        *ierror = code;                                                                                \
    }                                                                                                  \
    void F(kind##_get_attr)(const int *handle, const int *keyval, MPI_Aint *value, int *flag,          \
                            int *ierror);                                                              \
    void F(kind##_get_attr)(const int *handle, const int *keyval, MPI_Aint *value, int *flag,          \
                            int *ierror)                                                               \
    {                                                                                                  \
        void *found = NULL;                                                                            \
        int code = C(Kind##_get_attr)(to_##Handle(*handle), *keyval, &found, flag);                    \
        if (code == MPI_SUCCESS && *flag) *value = attribute_value(*keyval, found);                    \
        *ierror = code;                                                                                \
    }                                                                                                  \
    void F(kind##_create_keyval)(procedure copy, procedure del, int *keyval, const MPI_Aint *extra,    \
                                 int *ierror);                                                         \
    void F(kind##_create_keyval)(procedure copy, procedure del, int *keyval, const MPI_Aint *extra,    \
                                 int *ierror)                                                          \
    {                                                                                                  \
        struct keyval *state = keyval_state(copy, del, *extra, 0);                                     \
        *ierror = state == NULL ? MPI_ERR_NO_MEM                                                       \
                                : C(Kind##_create_keyval)(kind##_copy, kind##_delete, keyval, state);  \
    }
ATTRIBUTES(comm, Comm, comm, MPI_Comm)
ATTRIBUTES(type, Type, datatype, MPI_Datatype)
ATTRIBUTES(win, Win, win, MPI_Win)

void F(keyval_create)(procedure copy, procedure del, int *keyval, const int *extra, int *ierror);
void F(keyval_create)(procedure copy, procedure del, int *keyval, const int *extra, int *ierror)
{
    struct keyval *state = keyval_state(copy, del, *extra, 1);
    *ierror = state == NULL ? MPI_ERR_NO_MEM : C(Keyval_create)(comm_copy, comm_delete, keyval, state);
}

/* Requests of the user. */

void F(grequest_start)(procedure query, procedure release, procedure cancel, MPI_Aint *extra, int *request,
                       int *ierror);
void F(grequest_start)(procedure query, procedure release, procedure cancel, MPI_Aint *extra, int *request,
                       int *ierror)
{
    MPI_Request made = MPI_REQUEST_NULL;
    int code = MPI_ERR_NO_MEM;
    struct grequest *state = grequest_new(query, release, cancel, extra);
    if (state != NULL) {
        code = C(Grequest_start)(grequest_query, grequest_free, grequest_cancel, state, &made);
        if (code == MPI_SUCCESS) *request = of_MPI_Request(made);
        if (code != MPI_SUCCESS) free(state);
    }
    *ierror = code;
}

/* Data representations. What is registered stays until the process ends. */

#define REGISTER(name, Name, suffix)                                                                         \
    void F(name)(const char *datarep, procedure read, procedure write, procedure extent,                     \
                 const MPI_Aint *extra, int *ierror, size_t length);                                         \
    void F(name)(const char *datarep, procedure read, procedure write, procedure extent,                     \
                 const MPI_Aint *extra, int *ierror, size_t length)                                          \
    {                                                                                                        \
        char few[FEW_CHARS];                                                                                 \
        char *text = text_in(few, sizeof few, datarep, length, 0);                                           \
        struct datarep *state = datarep_new(read, write, extent, *extra);                                    \
        int code = MPI_ERR_NO_MEM;                                                                           \
        if (text != NULL && state != NULL) {                                                                 \
            code = C(Name)(text, is_null_conversion(read) ? NULL : datarep_read##suffix,                     \
                           is_null_conversion(write) ? NULL : datarep_write##suffix, datarep_extent, state); \
        }                                                                                                    \
        if (code != MPI_SUCCESS) free(state);                                                                \
        leave(few, text);                                                                                    \
        *ierror = code;                                                                                      \
    }
REGISTER(register_datarep, Register_datarep, )
REGISTER(register_datarep_c, Register_datarep_c, _c)

/* Processes. The arguments of a command end with a blank one. Blanks at the begin and the end of a command
 * or an argument do not count (MPI-5.0, 11.8.2). */

/* The strings `texts[0], texts[step], ...` as a NULL-terminated vector in one piece of memory: until a blank one, or
 * `count` of them. NULL without memory. */
static char **vector_of(const char *texts, size_t length, size_t step, size_t count)
{
    size_t used = 0;
    for (; used < count; used++) {
        const char *text = texts + used * step * length;
        size_t blanks = 0;
        while (blanks < length && text[blanks] == ' ') blanks++;
        if (blanks == length && count == SIZE_MAX) break;
    }
    char **vector = malloc((used + 1) * sizeof(char *) + used * (length + 1));
    if (vector == NULL) return NULL;
    char *at = (char *)(vector + used + 1);
    for (size_t i = 0; i < used; i++, at += length + 1) {
        vector[i] = text_in(at, length + 1, texts + i * step * length, length, 1);
    }
    vector[used] = NULL;
    return vector;
}

void F(comm_spawn)(const char *command, const char *argv, const int *maxprocs, const int *info, const int *root,
                   const int *comm, int *intercomm, int *codes, int *ierror, size_t length_command,
                   size_t length_argv);
void F(comm_spawn)(const char *command, const char *argv, const int *maxprocs, const int *info, const int *root,
                   const int *comm, int *intercomm, int *codes, int *ierror, size_t length_command,
                   size_t length_argv)
{
    char few[FEW_CHARS];
    MPI_Comm made = MPI_COMM_NULL;
    /* Only the root's command and arguments count. */
    int rank = -1, code = MPI_ERR_NO_MEM;
    PMPI_Comm_rank(to_MPI_Comm(*comm), &rank);
    int is_root = rank == *root, has_argv = is_root && argv != ayatori_argv_null_;
    char *c_command = is_root ? text_in(few, sizeof few, command, length_command, 1) : few;
    char **c_argv = has_argv ? vector_of(argv, length_argv, 1, SIZE_MAX) : MPI_ARGV_NULL;
    if (c_command != NULL && (c_argv != NULL || !has_argv)) {
        if (!is_root) *c_command = '\0';
        code = C(Comm_spawn)(c_command, c_argv, *maxprocs, to_MPI_Info(*info), *root, to_MPI_Comm(*comm), &made,
                             codes == ayatori_errcodes_ignore_ ? MPI_ERRCODES_IGNORE : codes);
        if (code == MPI_SUCCESS) *intercomm = of_MPI_Comm(made);
    }
    leave(few, c_command);
    free(c_argv);
    *ierror = code;
}

void F(comm_spawn_multiple)(const int *count, const char *commands, const char *argvs, const int *maxprocs,
                            const int *infos, const int *root, const int *comm, int *intercomm, int *codes,
                            int *ierror, size_t length_commands, size_t length_argvs);
void F(comm_spawn_multiple)(const int *count, const char *commands, const char *argvs, const int *maxprocs,
                            const int *infos, const int *root, const int *comm, int *intercomm, int *codes,
                            int *ierror, size_t length_commands, size_t length_argvs)
{
    MPI_Comm made = MPI_COMM_NULL;
    int rank = -1, code = MPI_ERR_NO_MEM;
    PMPI_Comm_rank(to_MPI_Comm(*comm), &rank);
    size_t n = rank == *root ? length_of(*count) : 0, argv_count = argvs == ayatori_argvs_null_ ? 0 : n;
    char **c_commands = vector_of(commands, length_commands, 1, n);
    char ***c_argvs = calloc(argv_count + 1, sizeof(char **));
    MPI_Info *c_infos = malloc((n + 1) * sizeof(MPI_Info));
    int have_all = c_commands != NULL && c_argvs != NULL && c_infos != NULL;
    for (size_t i = 0; have_all && i < n; i++) {
        c_infos[i] = to_MPI_Info(infos[i]);
        if (argv_count == 0) continue;
        c_argvs[i] = vector_of(argvs + i * length_argvs, length_argvs, n, SIZE_MAX);
        have_all = c_argvs[i] != NULL;
    }
    if (have_all) {
        code = C(Comm_spawn_multiple)(rank == *root ? *count : 0, c_commands,
                                      argv_count == 0 ? MPI_ARGVS_NULL : c_argvs, maxprocs, c_infos, *root,
                                      to_MPI_Comm(*comm), &made,
                                      codes == ayatori_errcodes_ignore_ ? MPI_ERRCODES_IGNORE : codes);
        if (code == MPI_SUCCESS) *intercomm = of_MPI_Comm(made);
    }
    for (size_t i = 0; c_argvs != NULL && i < argv_count; i++) free(c_argvs[i]);
    free(c_argvs);
    free(c_commands);
    free(c_infos);
    *ierror = code;
}
