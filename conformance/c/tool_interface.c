/* The tool interface: every variable and category by index and by name, strings that are cut, values against what the
 * program does, writing the progress mode, sessions and handles, before MPI_Init and after MPI_Finalize, and errors. */
#include "check.h"

#define IS(call, wanted) \
    do { \
        int code_ = (call); \
        if (code_ != (wanted)) check_failed(__FILE__, __LINE__, "%s returned %d, not %s", #call, code_, #wanted); \
    } while (0)

static int progress_index = -1;

static void control_variables(void)
{
    int count = -1, chars, index;
    IS(MPI_T_cvar_get_num(&count), MPI_SUCCESS);
    CHECK(count > 0, "%d control variables", count);
    for (int i = 0; i < count; i++) {
        char name[100], cut[5] = "xxxx", desc[300];
        int name_len = sizeof name, cut_len = 4, full = 0, desc_len = sizeof desc, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum names;
        MPI_T_cvar_handle handle;
        IS(MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &names, desc, &desc_len, &bind, &scope), MPI_SUCCESS);
        CHECK(name_len == (int)strlen(name) + 1 && desc_len == (int)strlen(desc) + 1, "lengths of %s", name);
        IS(MPI_T_cvar_get_info(i, cut, &cut_len, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_SUCCESS);
        CHECK(!strncmp(cut, name, 3) && !cut[3] && cut_len == name_len, "%s is cut to %s", name, cut);
        IS(MPI_T_cvar_get_info(i, NULL, &full, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_SUCCESS);
        CHECK(full == name_len, "%s needs %d bytes", name, full);
        IS(MPI_T_cvar_get_index(name, &index), MPI_SUCCESS);
        CHECK(index == i && bind == MPI_T_BIND_NO_OBJECT, "%s is variable %d, not %d", name, index, i);
        IS(MPI_T_cvar_handle_alloc(i, NULL, &handle, &chars), MPI_SUCCESS);
        if (type == MPI_CHAR) {
            char *text = check_alloc((size_t)chars), *set = getenv(name);
            IS(MPI_T_cvar_read(handle, text), MPI_SUCCESS);
            CHECK(!strcmp(text, set ? set : ""), "%s is %s", name, text);
            IS(MPI_T_cvar_write(handle, text), MPI_T_ERR_CVAR_SET_NEVER);
            free(text);
        } else {
            CHECK(type == MPI_INT && chars == 1 && names != MPI_T_ENUM_NULL, "%s is of another type", name);
            progress_index = i;
        }
        MPI_T_cvar_handle old = handle;
        IS(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL, "a freed handle is not null");
        IS(MPI_T_cvar_read(old, &index), MPI_T_ERR_INVALID_HANDLE);
        IS(MPI_T_cvar_handle_free(&old), MPI_T_ERR_INVALID_HANDLE);
    }
    IS(MPI_T_cvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    IS(MPI_T_cvar_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    IS(MPI_T_cvar_get_index("no such variable", &index), MPI_T_ERR_INVALID_NAME);
}

/* Writes each progress mode, checks it by the enumeration, and writes the first one again. */
static void progress_mode(int is_running)
{
    MPI_T_cvar_handle handle;
    MPI_T_enum names;
    int count, items = 0, first = -1, mode = -1, wrong = 77;
    IS(MPI_T_cvar_handle_alloc(progress_index, NULL, &handle, &count), MPI_SUCCESS);
    IS(MPI_T_cvar_get_info(progress_index, NULL, NULL, NULL, NULL, &names, NULL, NULL, NULL, NULL), MPI_SUCCESS);
    IS(MPI_T_cvar_read(handle, &first), MPI_SUCCESS);
    IS(MPI_T_cvar_write(handle, &wrong), MPI_T_ERR_INVALID);
    IS(MPI_T_enum_get_info(names, &items, NULL, NULL), MPI_SUCCESS);
    CHECK(items == 3, "%d progress modes", items);
    for (int i = 0; i < items; i++) {
        char name[20];
        int value = -1, len = sizeof name;
        IS(MPI_T_enum_get_item(names, i, &value, name, &len), MPI_SUCCESS);
        int code = MPI_T_cvar_write(handle, &value);
        if (!is_running) {
            CHECK(code == MPI_T_ERR_CVAR_SET_NOT_NOW, "written before MPI runs: %d", code);
            continue;
        }
        IS(MPI_T_cvar_read(handle, &mode), MPI_SUCCESS);
        if (code == MPI_SUCCESS) CHECK(mode == value, "wrote %s, read %d", name, mode);
        else CHECK(code == MPI_T_ERR_CVAR_SET_NOT_NOW, "writing %s gave %d", name, code);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (is_running) MPI_T_cvar_write(handle, &first);
    IS(MPI_T_enum_get_item(names, items, &mode, NULL, NULL), MPI_T_ERR_INVALID_ITEM);
    IS(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &items, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    IS(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
}

/* Before MPI runs, the mode is the one that it would start with. */
static void mode_to_come(void)
{
    const char *asked = getenv("AYATORI_PROGRESS");
    char name[20] = "";
    MPI_T_cvar_handle handle;
    MPI_T_enum names;
    int count, mode = -1, value, items = 0, len;
    IS(MPI_T_cvar_handle_alloc(progress_index, NULL, &handle, &count), MPI_SUCCESS);
    IS(MPI_T_cvar_get_info(progress_index, NULL, NULL, NULL, NULL, &names, NULL, NULL, NULL, NULL), MPI_SUCCESS);
    IS(MPI_T_cvar_read(handle, &mode), MPI_SUCCESS);
    IS(MPI_T_enum_get_info(names, &items, NULL, NULL), MPI_SUCCESS);
    for (int i = 0; i < items; i++) {
        len = sizeof name;
        IS(MPI_T_enum_get_item(names, i, &value, name, &len), MPI_SUCCESS);
        if (value == mode) break;
    }
    if (!asked || !*asked) asked = "assisted";
    CHECK(!strcmp(name, asked), "the mode is %s, not %s", name, asked);
    IS(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
}

/* What the program says in its environment after MPI_Init is not in force. */
static void late_settings(void)
{
    int count = -1, chars;
    IS(MPI_T_cvar_get_num(&count), MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        char name[100], *before, *after;
        int len = sizeof name;
        MPI_Datatype type;
        MPI_T_cvar_handle handle;
        IS(MPI_T_cvar_get_info(i, name, &len, NULL, &type, NULL, NULL, NULL, NULL, NULL), MPI_SUCCESS);
        if (type != MPI_CHAR) continue;
        IS(MPI_T_cvar_handle_alloc(i, NULL, &handle, &chars), MPI_SUCCESS);
        before = check_alloc((size_t)chars), after = check_alloc((size_t)chars);
        IS(MPI_T_cvar_read(handle, before), MPI_SUCCESS);
        setenv(name, "late", 1);
        IS(MPI_T_cvar_read(handle, after), MPI_SUCCESS);
        CHECK(!strcmp(before, after), "%s was %s and is %s", name, before, after);
        if (*before) setenv(name, before, 1);
        else unsetenv(name);
        free(before), free(after);
        IS(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
    }
}

static unsigned long long value_of(MPI_T_pvar_session session, const char *name, int class)
{
    unsigned long long value = 12345;
    int index = -1, count;
    MPI_T_pvar_handle handle;
    IS(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS);
    IS(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count), MPI_SUCCESS);
    IS(MPI_T_pvar_read(session, handle, &value), MPI_SUCCESS);
    IS(MPI_T_pvar_handle_free(session, &handle), MPI_SUCCESS);
    return value;
}

static void performance_variables(void)
{
    int count = -1, index, n;
    unsigned long long value;
    MPI_T_pvar_session session, other;
    IS(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    IS(MPI_T_pvar_session_create(&other), MPI_SUCCESS);
    IS(MPI_T_pvar_get_num(&count), MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        char name[100];
        int len = sizeof name, class, continuous, readonly, atomic;
        MPI_Datatype type;
        MPI_T_pvar_handle handle;
        IS(MPI_T_pvar_get_info(i, name, &len, NULL, &class, &type, NULL, NULL, NULL, NULL, &readonly, &continuous, &atomic), MPI_SUCCESS);
        IS(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS);
        CHECK(index == i && type == MPI_UNSIGNED_LONG_LONG, "%s is variable %d, not %d", name, index, i);
        IS(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_TIMER, &index), MPI_T_ERR_INVALID_NAME);
        IS(MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &n), MPI_SUCCESS);
        IS(MPI_T_pvar_read(session, handle, &value), MPI_SUCCESS);
        IS(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
        if (continuous) IS(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
        if (continuous) IS(MPI_T_pvar_stop(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
        if (readonly) IS(MPI_T_pvar_write(session, handle, &value), MPI_T_ERR_PVAR_NO_WRITE);
        if (readonly) IS(MPI_T_pvar_reset(session, handle), MPI_T_ERR_PVAR_NO_WRITE);
        if (!atomic) IS(MPI_T_pvar_readreset(session, handle, &value), MPI_T_ERR_PVAR_NO_ATOMIC);
    }
    IS(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
    IS(MPI_T_pvar_handle_alloc(session, count, NULL, NULL, &n), MPI_T_ERR_INVALID_INDEX);
    IS(MPI_T_pvar_get_index("no such variable", MPI_T_PVAR_CLASS_LEVEL, &index), MPI_T_ERR_INVALID_NAME);
    IS(MPI_T_pvar_get_index("", MPI_T_PVAR_CLASS_LEVEL, &index), MPI_T_ERR_INVALID_NAME);
    MPI_T_pvar_session old = session;
    IS(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
    CHECK(session == MPI_T_PVAR_SESSION_NULL, "a freed session is not null");
    IS(MPI_T_pvar_session_free(&old), MPI_T_ERR_INVALID_SESSION);
    IS(MPI_T_pvar_session_free(&other), MPI_SUCCESS);
}

/* What the variables say of messages that the program knows of. */
static void counts(void)
{
    int words[3] = {0}, to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    MPI_T_pvar_session session;
    MPI_Request requests[3];
    MPI_Comm comm;
    IS(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    unsigned long long before = value_of(session, "posted_receives", MPI_T_PVAR_CLASS_LEVEL);
    for (int i = 0; i < 3; i++) OK(MPI_Irecv(&words[i], 1, MPI_INT, from, 5, comm, &requests[i]));
    unsigned long long posted = value_of(session, "posted_receives", MPI_T_PVAR_CLASS_LEVEL);
    CHECK(posted == before + 3, "%llu posted receives, %llu before", posted, before);
    OK(MPI_Barrier(comm));
    for (int i = 0; i < 5; i++) OK(MPI_Send(&i, 1, MPI_INT, to, 5, comm));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK(words[0] == 0 && words[1] == 1 && words[2] == 2, "other messages");
    MPI_Status status;
    OK(MPI_Probe(from, 5, comm, &status));
    unsigned long long waiting = value_of(session, "unexpected_messages", MPI_T_PVAR_CLASS_LEVEL);
    CHECK(waiting >= 1, "%llu unexpected messages", waiting);
    unsigned long long sent = value_of(session, "sent_packets", MPI_T_PVAR_CLASS_COUNTER);
    CHECK(check_size == 1 || sent >= 5, "%llu packets sent", sent);
    for (int i = 0; i < 2; i++) OK(MPI_Recv(words, 1, MPI_INT, from, 5, comm, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&comm));
    IS(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
}

static void categories(void)
{
    int count = -1, controls = 0, performances = 0, all, stamp;
    IS(MPI_T_category_get_num(&count), MPI_SUCCESS);
    for (int i = 0; i < count; i++) {
        char name[60];
        int len = sizeof name, c, p, sub, index, events, indices[100];
        IS(MPI_T_category_get_info(i, name, &len, NULL, NULL, &c, &p, &sub), MPI_SUCCESS);
        IS(MPI_T_category_get_index(name, &index), MPI_SUCCESS);
        CHECK(index == i, "%s is category %d, not %d", name, index, i);
        IS(MPI_T_category_get_cvars(i, 100, indices), MPI_SUCCESS);
        for (int k = 1; k < c; k++) CHECK(indices[k] > indices[k - 1], "%s has a variable twice", name);
        IS(MPI_T_category_get_pvars(i, 100, indices), MPI_SUCCESS);
        IS(MPI_T_category_get_categories(i, 100, indices), MPI_SUCCESS);
        IS(MPI_T_category_get_num_events(i, &events), MPI_SUCCESS);
        controls += c, performances += p;
    }
    IS(MPI_T_cvar_get_num(&all), MPI_SUCCESS);
    CHECK(controls == all, "%d of %d control variables are in categories", controls, all);
    IS(MPI_T_pvar_get_num(&all), MPI_SUCCESS);
    CHECK(performances == all, "%d of %d performance variables are in categories", performances, all);
    IS(MPI_T_category_changed(&stamp), MPI_SUCCESS);
    IS(MPI_T_category_get_index("no such category", &all), MPI_T_ERR_INVALID_NAME);
    IS(MPI_T_category_get_cvars(count, 1, &all), MPI_T_ERR_INVALID_INDEX);
}

static void events(void)
{
    int count = -1, index;
    MPI_Count stamp;
    MPI_T_event_registration registration;
    IS(MPI_T_event_get_num(&count), MPI_SUCCESS);
    IS(MPI_T_source_get_num(&index), MPI_SUCCESS);
    IS(MPI_T_event_get_index("no such event", &index), MPI_T_ERR_INVALID_NAME);
    IS(MPI_T_event_handle_alloc(count, NULL, MPI_INFO_NULL, &registration), MPI_T_ERR_INVALID_INDEX);
    IS(MPI_T_source_get_timestamp(index, &stamp), MPI_T_ERR_INVALID_INDEX);
}

static void all(int is_running)
{
    control_variables();
    progress_mode(is_running);
    performance_variables();
    categories();
    events();
}

int main(int argc, char **argv)
{
    int provided = -1, n, ended;
    IS(MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    IS(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    IS(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    CHECK(provided == MPI_THREAD_SINGLE, "thread level %d", provided);
    IS(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS);
    IS(MPI_T_finalize(), MPI_SUCCESS);
    all(0);
    mode_to_come();
    check_start(&argc, &argv);
    all(1);
    late_settings();
    counts();
    ended = check_end();
    all(0);
    IS(MPI_T_finalize(), MPI_SUCCESS);
    IS(MPI_T_pvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    return ended || check_errors;
}
