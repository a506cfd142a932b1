/* A rank that was started in the place of another dies, too, alone in its world: its parents go on, and start
 * a third. */
#include "survive.h"

/* Starts one more process; all of them, the new one last. */
static MPI_Comm with_one_more(MPI_Comm comm, const char *program, char **arguments)
{
    MPI_Comm inter, all;
    OK(MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, comm, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Intercomm_merge(inter, 0, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    return all;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, all, left;
    char *dies[] = {"dies", NULL};
    int size = 0;
    check_start(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Intercomm_merge(parent, 1, &all));
        OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
        if (argc < 2) return survive_end(all);
        OK(MPI_Barrier(all));
        die();
    }
    all = with_one_more(MPI_COMM_WORLD, argv[0], dies);
    OK(MPI_Barrier(all));
    while (!lost(MPI_Barrier(all)))
        ;
    OK(MPIX_Comm_revoke(all));
    OK(MPIX_Comm_shrink(all, &left));
    MPI_Comm_size(left, &size);
    CHECK(size == check_size, "%d are left of %d", size, check_size);
    all = with_one_more(left, argv[0], MPI_ARGV_NULL);
    MPI_Comm_size(all, &size);
    CHECK(size == check_size + 1, "%d after the start of one, %d before", size, check_size);
    return survive_end(all);
}
