/* Initialisation, versions, names, clocks, memory, predefined attributes.
 *
 * CHECK_HOSTS says over how many hosts, if more than one. */
#include "check.h"

static void before_init(void)
{
    int flag = 1, version = 0, subversion = 0, length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Initialized(&flag));
    CHECK(!flag, "initialised before MPI_Init");
    OK(MPI_Finalized(&flag));
    CHECK(!flag, "finalised before MPI_Init");
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION, "library %d.%d, header %d.%d", version, subversion,
          MPI_VERSION, MPI_SUBVERSION);
    OK(MPI_Get_library_version(text, &length));
    CHECK(length > 0 && strlen(text) == (size_t)length, "library version of length %d", length);
}

static void names(void)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    OK(MPI_Get_processor_name(name, &length));
    CHECK(length > 0 && strlen(name) == (size_t)length, "processor name of length %d", length);
}

static void clocks(void)
{
    double before = MPI_Wtime(), tick = MPI_Wtick();
    CHECK(tick > 0 && tick < 0.01, "tick of %g s", tick);
    for (int i = 0; i < 1000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= before, "the clock ran backwards by %g s", before - now);
        before = now;
    }
}

static void memory(void)
{
    char *memory = NULL;
    OK(MPI_Alloc_mem(100000, MPI_INFO_NULL, &memory));
    CHECK(memory != NULL, "no memory");
    memset(memory, 1, 100000);
    OK(MPI_Free_mem(memory));
    int values[4];
    MPI_Aint a, b;
    OK(MPI_Get_address(&values[0], &a));
    OK(MPI_Get_address(&values[3], &b));
    CHECK(MPI_Aint_diff(b, a) == 3 * (MPI_Aint)sizeof(int), "difference of addresses");
    CHECK(MPI_Aint_add(a, 3 * (MPI_Aint)sizeof(int)) == b, "sum of an address");
}

static void attributes(void)
{
    int *value = NULL, found = 0;
    const char *hosts = getenv("CHECK_HOSTS");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &found));
    CHECK(!found || *value == 0 || *value == 1, "MPI_WTIME_IS_GLOBAL");
    /* No library here makes the clocks of several hosts agree. */
    CHECK(!found || *value == 0 || !hosts || atoi(hosts) == 1, "MPI_WTIME_IS_GLOBAL on %s hosts", hosts);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &found));
    CHECK(!found || *value >= 1, "MPI_UNIVERSE_SIZE");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &found));
    CHECK(!found || *value >= 0, "MPI_APPNUM");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &value, &found));
    CHECK(!found || *value == MPI_PROC_NULL || (*value >= 0 && *value < check_size), "MPI_HOST");
}

int main(int argc, char **argv)
{
    int provided = -1, level = -1, flag = 0;
    before_init();
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE, "thread level %d", provided);
    OK(MPI_Query_thread(&level));
    CHECK(level == provided, "Query_thread says %d, Init_thread said %d", level, provided);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag, "the main thread does not know itself");
    OK(MPI_Initialized(&flag));
    CHECK(flag, "not initialised after MPI_Init_thread");
    names();
    clocks();
    memory();
    attributes();
    OK(MPI_Pcontrol(1));
    int failed = check_end(); /* finalises */
    OK(MPI_Finalized(&flag));
    CHECK(flag, "not finalised after MPI_Finalize");
    return failed || check_errors;
}
