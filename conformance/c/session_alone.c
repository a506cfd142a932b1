/* Sessions without MPI_Init: process sets, communicators of groups, and one session after another. */
#include "check.h"

static int named(MPI_Session session, const char *wanted)
{
    int count = -1, found = 0;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], cut[4];
        int length = 0, four = 4;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL));
        CHECK(length > 1 && length <= MPI_MAX_PSET_NAME_LEN, "a name of %d bytes", length);
        int room = length;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &room, name));
        CHECK(room == length && strlen(name) + 1 == (size_t)length, "%s has not %d bytes", name, length);
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &four, cut));
        CHECK(strlen(cut) == 3 && strncmp(cut, name, 3) == 0, "cut to %s", cut);
        found += strcmp(name, wanted) == 0;
    }
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &count, NULL), MPI_ERR_ARG);
    return found;
}

static MPI_Group group_of(MPI_Session session, const char *set)
{
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Info info;
    int size = -1, flag = 0, length = 16;
    char value[16];
    CHECK(named(session, set) == 1, "there is no set %s", set);
    OK(MPI_Group_from_session_pset(session, set, &group));
    OK(MPI_Group_size(group, &size));
    OK(MPI_Session_get_pset_info(session, set, &info));
    OK(MPI_Info_get_string(info, "mpi_size", &length, value, &flag));
    CHECK(flag && atoi(value) == size, "%s has %d members, not %s", set, size, flag ? value : "?");
    OK(MPI_Info_free(&info));
    return group;
}

static int handled;
static void handle(MPI_Session *session, int *code, ...)
{
    (void)session;
    handled += *code == MPI_ERR_ARG;
}

static void errors(MPI_Session session)
{
    MPI_Errhandler handler, got;
    MPI_Group group;
    MPI_Comm comm;
    FAILS(MPI_Group_from_session_pset(session, "mpi://NOBODY", &group), MPI_ERR_ARG);
    OK(MPI_Session_create_errhandler(handle, &handler));
    OK(MPI_Session_set_errhandler(session, handler));
    FAILS(MPI_Group_from_session_pset(session, "mpi://NOBODY", &group), MPI_ERR_ARG);
    OK(MPI_Session_call_errhandler(session, MPI_ERR_ARG));
    CHECK(handled == 2, "the handler was called %d times", handled);
    OK(MPI_Session_get_errhandler(session, &got));
    CHECK(got == handler, "another handler");
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Group_from_session_pset(session, "MPI://self", &group));
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "empty", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(comm == MPI_COMM_NULL, "a communicator of nobody");
    OK(MPI_Group_free(&group));
}

static void use(MPI_Session session, int round)
{
    MPI_Group world = group_of(session, "mpi://WORLD"), only = group_of(session, "mpi://SELF"), half;
    MPI_Comm all, own, part, inter;
    int rank = -1, size = -1, sum = -1, one = 1;
    OK(MPI_Comm_create_from_group(world, "conformance", MPI_INFO_NULL, MPI_ERRORS_RETURN, &all));
    OK(MPI_Comm_create_from_group(only, "conformance", MPI_INFO_NULL, MPI_ERRORS_RETURN, &own));
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    check_rank = rank, check_size = size;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK(sum == size, "%d of %d take part", sum, size);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, own));
    CHECK(sum == rank, "the sum of one is %d", sum);
    /* Odd and even ranks, by one name at the same time, and an intercommunicator of both. */
    int ranges[2][3] = {{0, size - 1, 2}, {1, size - 1, 2}};
    if (size > 1) {
        OK(MPI_Group_range_incl(world, 1, &ranges[rank % 2], &half));
        OK(MPI_Comm_create_from_group(half, "half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &part));
        OK(MPI_Comm_size(part, &sum));
        CHECK(sum == (size + 1 - rank % 2) / 2, "a half of %d", sum);
        MPI_Group other;
        int remote = -1;
        OK(MPI_Group_range_incl(world, 1, &ranges[1 - rank % 2], &other));
        OK(MPI_Intercomm_create_from_groups(half, 0, other, 0, "half", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
        OK(MPI_Comm_remote_size(inter, &remote));
        CHECK(remote == size - sum, "%d remote", remote);
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
        CHECK(sum == remote, "%d of %d", sum, remote);
        OK(MPI_Group_free(&other));
        OK(MPI_Group_free(&half));
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&part));
    }
    if (round == 0) errors(session);
    int all_errors = 0;
    OK(MPI_Allreduce(&check_errors, &all_errors, 1, MPI_INT, MPI_SUM, all));
    if (round == 1) {
        if (rank == 0 && all_errors) printf("Found %d errors\n", all_errors);
        if (rank == 0 && !all_errors) printf("No Errors\n");
        fflush(stdout);
    }
    OK(MPI_Comm_disconnect(&all));
    OK(MPI_Comm_free(&own));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&only));
}

int main(void)
{
    MPI_Session session = MPI_SESSION_NULL, second;
    MPI_Info info;
    MPI_Errhandler handler;
    int flag = -1, length = 32;
    char level[32];
    /* What needs no session. */
    MPI_Session_create_errhandler(handle, &handler);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    for (int round = 0; round < 2; round++) {
        OK(MPI_Session_init(round ? MPI_INFO_NULL : info, round ? MPI_ERRORS_RETURN : handler, &session));
        OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
        OK(MPI_Initialized(&flag));
        CHECK(flag == 0, "a session makes a world");
        OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
        CHECK(second != session, "two sessions are one");
        MPI_Info used;
        OK(MPI_Session_get_info(session, &used));
        OK(MPI_Info_get_string(used, "thread_level", &length, level, &flag));
        CHECK(flag && strcmp(level, "MPI_THREAD_MULTIPLE") == 0, "the level is %s", flag ? level : "?");
        OK(MPI_Info_free(&used));
        length = 32;
        use(session, round);
        OK(MPI_Session_finalize(&session));
        CHECK(session == MPI_SESSION_NULL, "an ended handle is left");
        OK(MPI_Finalized(&flag));
        CHECK(flag == 0, "the world has ended");
        OK(MPI_Session_finalize(&second));
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Errhandler_free(&handler));
    return check_errors != 0;
}
