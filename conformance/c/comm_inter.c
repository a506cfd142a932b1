/* Intercommunicators: made of two groups, asked about, duplicated, split, merged; messages over them. */
#include "check.h"

static MPI_Comm local, inter;
static int side, local_rank, local_size, remote_size;

/* The world's ranks by side: odd and even, the odd ones backwards. */
static int world_rank(int of_side, int rank)
{
    int size = (check_size + 1 - of_side) / 2;
    return of_side == 0 ? 2 * rank : 2 * (size - 1 - rank) + 1;
}

static void make(void)
{
    side = check_rank % 2;
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, side ? -check_rank : check_rank, &local));
    OK(MPI_Comm_rank(local, &local_rank));
    OK(MPI_Comm_size(local, &local_size));
    remote_size = check_size - local_size;
    /* Leaders that are not rank 0; what the others give as peer means nothing. */
    int leader = local_size - 1, remote_leader = world_rank(1 - side, remote_size - 1);
    MPI_Comm peer = local_rank == leader ? MPI_COMM_WORLD : MPI_COMM_NULL;
    OK(MPI_Intercomm_create(local, leader, peer, remote_leader, 5, &inter));
}

static void check_group(MPI_Group group, int of_side, const char *what)
{
    MPI_Group world;
    int size = -1;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_size(group, &size));
    for (int i = 0; i < size; i++) {
        int there = -1;
        OK(MPI_Group_translate_ranks(group, 1, &i, world, &there));
        CHECK(there == world_rank(of_side, i), "%s: rank %d is %d of the world", what, i, there);
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&group));
}

static void check_it(MPI_Comm comm, const char *what)
{
    int flag = -1, size = -1, rank = -1, remote = -1;
    MPI_Group group;
    OK(MPI_Comm_test_inter(comm, &flag));
    OK(MPI_Comm_size(comm, &size));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_remote_size(comm, &remote));
    CHECK(flag == 1 && size == local_size && rank == local_rank && remote == remote_size,
          "%s: inter %d, rank %d of %d, %d remote", what, flag, rank, size, remote);
    OK(MPI_Comm_group(comm, &group));
    check_group(group, side, what);
    OK(MPI_Comm_remote_group(comm, &group));
    check_group(group, 1 - side, what);
}

/* Each sends to each of the other side, in all the ways there are. */
static void talk(MPI_Comm comm)
{
    int total = 2 * remote_size;
    MPI_Request *requests = check_alloc(total * sizeof *requests);
    int *in = check_alloc(remote_size * sizeof *in);
    for (int i = 0; i < remote_size; i++) OK(MPI_Recv_init(&in[i], 1, MPI_INT, i, 3, comm, &requests[i]));
    for (int i = 0; i < remote_size; i++)
        OK(MPI_Send_init(&check_rank, 1, MPI_INT, i, 3, comm, &requests[remote_size + i]));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < remote_size; i++) in[i] = -1;
        OK(MPI_Startall(total, requests));
        OK(MPI_Waitall(total, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < remote_size; i++) CHECK(in[i] == world_rank(1 - side, i), "from %d came %d", i, in[i]);
    }
    for (int i = 0; i < total; i++) OK(MPI_Request_free(&requests[i]));
    for (size_t at = 0; at < 3; at++) {
        size_t bytes = (size_t[]){0, 1000, 300001}[at];
        unsigned char *out = check_alloc(bytes * remote_size), *back = check_alloc(bytes);
        int tag = 4 + (int)at;
        for (int i = 0; i < remote_size; i++) {
            pattern_fill(out + i * bytes, bytes, 100 * check_rank + i);
            OK(MPI_Isend(out + i * bytes, (int)bytes, MPI_BYTE, i, tag, comm, &requests[i]));
        }
        for (int i = 0; i < remote_size; i++) {
            /* Whoever is next: probed, then received by the probe's message. */
            MPI_Status status;
            MPI_Message message;
            OK(MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &message, &status));
            int from = status.MPI_SOURCE;
            OK(MPI_Mrecv(back, (int)bytes, MPI_BYTE, &message, &status));
            CHECK_STATUS(status, from, tag, bytes);
            CHECK(from >= 0 && from < remote_size, "source %d", from);
            CHECK(pattern_wrong(back, bytes, 100 * world_rank(1 - side, from) + local_rank) < 0, "%zu bytes", bytes);
        }
        OK(MPI_Waitall(remote_size, requests, MPI_STATUSES_IGNORE));
        free(out);
        free(back);
    }
    for (int i = 0; i < remote_size; i++) {
        int got = -1;
        OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, i, 9, &got, 1, MPI_INT, i, 9, comm, MPI_STATUS_IGNORE));
        CHECK(got == world_rank(1 - side, i), "from %d came %d", i, got);
    }
    free(requests);
    free(in);
}

static int copied;
static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    *(void **)out = in;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}

static void duplicates(void)
{
    MPI_Comm dup, idup, again;
    MPI_Request request;
    int keyval, flag = 0, result = -1, value = 7, *got = NULL, length;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    OK(MPI_Comm_set_attr(inter, keyval, &value));
    OK(MPI_Comm_set_name(inter, "both sides"));
    OK(MPI_Comm_get_name(inter, name, &length));
    CHECK(strcmp(name, "both sides") == 0, "the name is %s", name);
    OK(MPI_Comm_dup(inter, &dup));
    OK(MPI_Comm_idup(inter, &idup, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(copied == 2, "%d attributes were copied", copied);
    OK(MPI_Comm_get_attr(dup, keyval, &got, &flag));
    CHECK(flag && got == &value, "the attribute was not copied");
    check_it(dup, "dup");
    check_it(idup, "idup");
    OK(MPI_Comm_compare(inter, dup, &result));
    CHECK(result == MPI_CONGRUENT, "a duplicate compares as %d", result);
    OK(MPI_Comm_compare(inter, inter, &result));
    CHECK(result == MPI_IDENT, "it compares to itself as %d", result);
    OK(MPI_Comm_compare(inter, local, &result));
    CHECK(result == MPI_UNEQUAL, "it compares to its group's as %d", result);
    /* A message sent on one is not received on another. */
    int out = 1, in = -1;
    MPI_Request two[2];
    if (local_rank == 0) {
        int first = 1;
        OK(MPI_Isend(&first, 1, MPI_INT, 0, 0, dup, &two[0]));
        OK(MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, idup, &two[1]));
        OK(MPI_Recv(&flag, 1, MPI_INT, 0, 0, dup, MPI_STATUS_IGNORE));
        CHECK(in == -1 && flag == 1, "%d came on the other communicator", in);
        OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 0, &flag, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
        out = 2;
        OK(MPI_Send(&out, 1, MPI_INT, 0, 0, idup));
        OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
        CHECK(in == 2, "%d came", in);
    }
    talk(dup);
    OK(MPI_Comm_dup_with_info(dup, MPI_INFO_NULL, &again));
    OK(MPI_Comm_free(&dup));
    check_it(again, "dup of a dup");
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_disconnect(&idup));
    CHECK(idup == MPI_COMM_NULL, "a disconnected handle is left");
    OK(MPI_Comm_free_keyval(&keyval));
}

static void splits(void)
{
    MPI_Comm part;
    /* The low half of each side, backwards. */
    int low = local_rank < (local_size + 1) / 2, flag = -1, rank = -1, size = -1, remote = -1;
    OK(MPI_Comm_split(inter, low ? 3 : MPI_UNDEFINED, -local_rank, &part));
    CHECK((part != MPI_COMM_NULL) == low, "part %d of side %d", low, side);
    if (part != MPI_COMM_NULL) {
        int out = check_rank, in = -1, members = (local_size + 1) / 2, others = (remote_size + 1) / 2;
        OK(MPI_Comm_test_inter(part, &flag));
        OK(MPI_Comm_rank(part, &rank));
        OK(MPI_Comm_size(part, &size));
        OK(MPI_Comm_remote_size(part, &remote));
        CHECK(flag && rank == members - 1 - local_rank && size == members && remote == others,
              "inter %d, rank %d of %d, %d remote", flag, rank, size, remote);
        if (rank == 0) {
            OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, part, MPI_STATUS_IGNORE));
            CHECK(in == world_rank(1 - side, others - 1), "rank 0 of the other side is %d", in);
        }
        OK(MPI_Comm_free(&part));
    }
    /* A color that the other side does not have gives nothing. */
    OK(MPI_Comm_split(inter, side, 0, &part));
    CHECK(part == MPI_COMM_NULL, "a communicator of one side");
    /* All of one host, which is everybody here or not: both sides are told alike. */
    OK(MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part));
    if (part != MPI_COMM_NULL) {
        OK(MPI_Barrier(part));
        OK(MPI_Comm_free(&part));
    }
}

static void creates(void)
{
    MPI_Group group, part;
    MPI_Comm made;
    /* The last of each side only. */
    int last = local_size - 1, size = -1;
    OK(MPI_Comm_group(inter, &group));
    OK(MPI_Group_incl(group, 1, &last, &part));
    OK(MPI_Comm_create(inter, part, &made));
    CHECK((made != MPI_COMM_NULL) == (local_rank == last), "rank %d has one", local_rank);
    if (made != MPI_COMM_NULL) {
        int in = -1;
        OK(MPI_Comm_remote_size(made, &size));
        OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, made, MPI_STATUS_IGNORE));
        CHECK(size == 1 && in == world_rank(1 - side, remote_size - 1), "%d remote: %d", size, in);
        OK(MPI_Comm_free(&made));
    }
    OK(MPI_Group_free(&part));
    /* One side gives nobody. */
    OK(MPI_Comm_create(inter, side ? MPI_GROUP_EMPTY : group, &made));
    CHECK(made == MPI_COMM_NULL, "a communicator with an empty side");
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    FAILS(MPI_Comm_create_group(inter, group, 0, &made), MPI_ERR_COMM);
    OK(MPI_Group_free(&group));
}

static void merges(void)
{
    for (int low = 0; low < 2; low++) {
        MPI_Comm merged;
        int rank = -1, size = -1, flag = -1, sum = 0, first = low == side ? 0 : remote_size;
        OK(MPI_Intercomm_merge(inter, side != low, &merged));
        OK(MPI_Comm_rank(merged, &rank));
        OK(MPI_Comm_size(merged, &size));
        OK(MPI_Comm_test_inter(merged, &flag));
        CHECK(rank == first + local_rank && size == check_size && !flag, "rank %d of %d", rank, size);
        OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, merged));
        CHECK(sum == check_size * (check_size - 1) / 2, "the sum is %d", sum);
        OK(MPI_Comm_free(&merged));
    }
    MPI_Comm same;
    int rank = -1;
    OK(MPI_Intercomm_merge(inter, 1, &same));
    OK(MPI_Comm_rank(same, &rank));
    CHECK(rank == local_rank || rank == remote_size + local_rank, "rank %d", rank);
    OK(MPI_Comm_free(&same));
}

static int handled;
static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    handled += *comm == inter;
}

static void errors(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group group;
    MPI_Errhandler handler;
    int value = 0, size;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Comm_remote_size(MPI_COMM_WORLD, &size), MPI_ERR_COMM);
    FAILS(MPI_Comm_remote_group(MPI_COMM_WORLD, &group), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &comm), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_create(MPI_COMM_NULL, 0, MPI_COMM_WORLD, 0, 0, &comm), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_create(MPI_COMM_SELF, 1, MPI_COMM_WORLD, 0, 0, &comm), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, check_size, 0, &comm), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 0, -1, &comm), MPI_ERR_TAG);
    FAILS(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_NULL, 0, 0, &comm), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, check_rank, 0, &comm), MPI_ERR_GROUP);
    OK(MPI_Comm_create_errhandler(handle, &handler));
    OK(MPI_Comm_set_errhandler(inter, handler));
    FAILS(MPI_Send(&value, 1, MPI_INT, remote_size, 0, inter), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &comm), MPI_ERR_COMM);
    OK(MPI_Comm_call_errhandler(inter, MPI_ERR_OTHER));
    CHECK(handled == 3, "the handler was called %d times", handled);
    OK(MPI_Errhandler_free(&handler));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_NEED(2);
    for (int round = 0; round < 2; round++) {
        make();
        check_it(inter, "made");
        copied = 0;
        talk(inter);
        splits();
        creates();
        merges();
        duplicates();
        if (round) errors();
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&local));
    }
    return check_end();
}
