/* Hints in use: the kinds of memory at every object that has hints (MPI-5.0 §11.4.3), at windows no value
 * that means nothing. */
#include "check.h"
#include <unistd.h>

/* The value of a key, or "-". Takes the object. */
static const char *value_of(MPI_Info info, const char *key)
{
    static char value[MPI_MAX_INFO_VAL];
    int length = sizeof value, flag = 0;
    OK(MPI_Info_get_string(info, key, &length, value, &flag));
    OK(MPI_Info_free(&info));
    return flag ? value : "-";
}

/* The list has the kinds that every library has. */
static void has_kinds(const char *what, MPI_Info info)
{
    char list[MPI_MAX_INFO_VAL + 2];
    snprintf(list, sizeof list, ",%s,", value_of(info, "mpi_memory_alloc_kinds"));
    CHECK(strstr(list, ",system,") && strstr(list, ",mpi,"), "the kinds of memory of %s are %s", what, list);
}

static MPI_Info of_comm(MPI_Comm comm)
{
    MPI_Info used = MPI_INFO_NULL;
    OK(MPI_Comm_get_info(comm, &used));
    return used;
}

static MPI_Info of_win(MPI_Win win)
{
    MPI_Info used = MPI_INFO_NULL;
    OK(MPI_Win_get_info(win, &used));
    return used;
}

static void kinds(void)
{
    MPI_Comm dup;
    MPI_Info info;
    MPI_Session session;
    char world[MPI_MAX_INFO_VAL];
    has_kinds("MPI_COMM_WORLD", of_comm(MPI_COMM_WORLD));
    has_kinds("MPI_COMM_SELF", of_comm(MPI_COMM_SELF));
    strcpy(world, value_of(of_comm(MPI_COMM_WORLD), "mpi_memory_alloc_kinds"));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_memory_alloc_kinds", "none"));
    OK(MPI_Comm_set_info(MPI_COMM_WORLD, info));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &dup));
    OK(MPI_Info_free(&info));
    const char *now = value_of(of_comm(MPI_COMM_WORLD), "mpi_memory_alloc_kinds");
    CHECK(strcmp(now, world) == 0, "the kinds of MPI_COMM_WORLD were %s and are %s", world, now);
    now = value_of(of_comm(dup), "mpi_memory_alloc_kinds");
    CHECK(strcmp(now, world) == 0, "the kinds of MPI_COMM_WORLD are %s, of a duplicate %s", world, now);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_info(session, &info));
    has_kinds("a session", info);
    OK(MPI_Session_finalize(&session));
}

static void kinds_of_a_file(void)
{
    char name[64];
    MPI_File file;
    MPI_Info info = MPI_INFO_NULL;
    snprintf(name, sizeof name, "/tmp/ayatori-info-used-%d", (int)getpid());
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL,
                     &file));
    OK(MPI_File_get_info(file, &info));
    has_kinds("a file", info);
    OK(MPI_File_close(&file));
}

static void windows(void)
{
    static const struct {
        const char *key, *good, *bad;
    } hints[] = {
        {"no_locks", "true", "banana"},
        {"same_size", "true", "1"},
        {"same_disp_unit", "true", "yes"},
        {"accumulate_ops", "same_op", "other_op"},
    };
    enum { COUNT = sizeof hints / sizeof *hints };
    int memory[4] = {0};
    char before[MPI_MAX_INFO_VAL];
    MPI_Win win;
    MPI_Info good, bad;
    OK(MPI_Info_create(&good));
    OK(MPI_Info_create(&bad));
    for (int i = 0; i < COUNT; i++) OK(MPI_Info_set(good, hints[i].key, hints[i].good));
    for (int i = 0; i < COUNT; i++) OK(MPI_Info_set(bad, hints[i].key, hints[i].bad));
    OK(MPI_Win_create(memory, sizeof memory, 1, bad, MPI_COMM_WORLD, &win));
    has_kinds("a window", of_win(win));
    for (int i = 0; i < COUNT; i++) {
        const char *now = value_of(of_win(win), hints[i].key);
        CHECK(strcmp(now, hints[i].bad) != 0, "a new window has %s=%s", hints[i].key, now);
    }
    OK(MPI_Win_set_info(win, good));
    for (int i = 0; i < COUNT; i++) {
        strcpy(before, value_of(of_win(win), hints[i].key));
        OK(MPI_Win_set_info(win, bad));
        const char *now = value_of(of_win(win), hints[i].key);
        CHECK(strcmp(now, before) == 0, "%s was %s, and %s made it %s", hints[i].key, before, hints[i].bad,
              now);
    }
    OK(MPI_Info_free(&good));
    OK(MPI_Info_free(&bad));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    kinds();
    kinds_of_a_file();
    windows();
    return check_end();
}
