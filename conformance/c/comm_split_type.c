/* MPI_Comm_split_type: by shared memory in both forms, and what gives no communicator.
 *
 * Over several hosts, each with as many ranks as the others but for the last: CHECK_HOSTS says how many hosts. */
#include "check.h"

static int per_host;

/* The communicator has the ranks of this host, all of them, in order. */
static void has_this_host(const char *what, MPI_Comm comm)
{
    int first = check_rank / per_host * per_host, wanted = per_host, size = -1;
    CHECK(comm != MPI_COMM_NULL, "%s gave MPI_COMM_NULL", what);
    if (comm == MPI_COMM_NULL) return;
    if (first + wanted > check_size) wanted = check_size - first;
    OK(MPI_Comm_size(comm, &size));
    CHECK(size == wanted, "%s: %d ranks, not the %d of this host", what, size, wanted);
    int *ranks = check_alloc((size_t)size * sizeof *ranks);
    OK(MPI_Allgather(&check_rank, 1, MPI_INT, ranks, 1, MPI_INT, comm));
    for (int i = 0; i < size; i++) CHECK(ranks[i] == first + i, "%s: rank %d is %d", what, i, ranks[i]);
    free(ranks);
    OK(MPI_Comm_free(&comm));
}

static void gives_null(const char *what, int type, MPI_Info info)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, info, &comm));
    CHECK(comm == MPI_COMM_NULL, "%s gave a communicator", what);
}

int main(int argc, char **argv)
{
    MPI_Comm comm, backwards;
    MPI_Info info;
    check_start(&argc, &argv);
    const char *hosts = getenv("CHECK_HOSTS");
    int hosts_count = hosts ? atoi(hosts) : 1;
    per_host = (check_size + hosts_count - 1) / hosts_count;

    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    has_this_host("MPI_COMM_TYPE_SHARED", comm);
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &backwards));
    OK(MPI_Comm_split_type(backwards, MPI_COMM_TYPE_SHARED, check_rank, MPI_INFO_NULL, &comm));
    has_this_host("of a communicator in another order", comm);
    OK(MPI_Comm_free(&backwards));

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory"));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm));
    has_this_host("guided by mpi_shared_memory", comm);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm));
    has_this_host("guided by the resource mpi_shared_memory", comm);
    OK(MPI_Info_set(info, "mpi_hw_resource_type", "a resource nobody knows"));
    gives_null("an unknown resource", MPI_COMM_TYPE_HW_GUIDED, info);
    gives_null("an unknown resource of another kind", MPI_COMM_TYPE_RESOURCE_GUIDED, info);
    OK(MPI_Info_free(&info));
    gives_null("MPI_UNDEFINED", MPI_UNDEFINED, MPI_INFO_NULL);
    return check_end();
}
