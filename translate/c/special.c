/* Functions that no rule translates, those that MPI-3.0 removed, and conversions of handles and statuses.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "translate.h"

double PMPI_Wtime(void)
{
    return a_Wtime();
}
ALIAS(MPI_Wtime)

double PMPI_Wtick(void)
{
    return a_Wtick();
}
ALIAS(MPI_Wtick)

MPI_Aint(PMPI_Aint_add)(MPI_Aint base, MPI_Aint disp)
{
    return a_Aint_add(base, disp);
}
ALIAS(MPI_Aint_add)

MPI_Aint(PMPI_Aint_diff)(MPI_Aint addr1, MPI_Aint addr2)
{
    return a_Aint_diff(addr1, addr2);
}
ALIAS(MPI_Aint_diff)

/* The handles of this library are not the standard's: -1 says so (MPI-5.0, 20.3). */
int PMPI_Abi_get_version(int *abi_major, int *abi_minor)
{
    *abi_major = *abi_minor = -1;
    return MPI_SUCCESS;
}
ALIAS(MPI_Abi_get_version)

/* The version that the ABI has: a program may go by it to what its header does not have. */
int PMPI_Get_version(int *version, int *subversion)
{
    int code = a_Get_version(version, subversion);
#ifdef FOREIGN_VERSION
    if (code == 0) *version = FOREIGN_VERSION, *subversion = FOREIGN_SUBVERSION;
#endif
    return out_error(code);
}
ALIAS(MPI_Get_version)

int PMPI_Pcontrol(const int level, ...)
{
    return out_error(a_Pcontrol(level));
}
ALIAS(MPI_Pcontrol)

/* A port is of no use when it is cut. */
int PMPI_Open_port(MPI_Info info, char *port_name)
{
    char port[A_MPI_MAX_PORT_NAME + 1] = "";
    if (!port_name) return out_error(a_Open_port(in_MPI_Info(info), NULL));
    int code = a_Open_port(in_MPI_Info(info), port);
    if (code == 0 && strlen(port) >= MPI_MAX_PORT_NAME) {
        a_Close_port(port);
        return refuse("MPI_Open_port: a name of more than MPI_MAX_PORT_NAME characters");
    }
    if (code == 0) strcpy(port_name, port);
    return out_error(code);
}
ALIAS(MPI_Open_port)

/* A status of the caller's has the caller's layout: its fields are read and written as they are. */
#define STATUS_FIELD(getter, setter, field, argument) \
    int P##getter(const MPI_Status *status, int *argument) \
    { \
        if (!status || !argument) return MPI_ERR_ARG; \
        *argument = status->field; \
        return MPI_SUCCESS; \
    } \
    ALIAS(getter) \
    int P##setter(MPI_Status *status, int argument) \
    { \
        if (!status) return MPI_ERR_ARG; \
        status->field = argument; \
        return MPI_SUCCESS; \
    } \
    ALIAS(setter)

STATUS_FIELD(MPI_Status_get_error, MPI_Status_set_error, MPI_ERROR, error)
STATUS_FIELD(MPI_Status_get_source, MPI_Status_set_source, MPI_SOURCE, source)
STATUS_FIELD(MPI_Status_get_tag, MPI_Status_set_tag, MPI_TAG, tag)

/* Sizes of arrays. */

size_t peers_of(a_handle comm)
{
    int is_inter = 0, size = 0;
    if (a_Comm_test_inter(comm, &is_inter) != 0) return 0;
    int code = is_inter ? a_Comm_remote_size(comm, &size) : a_Comm_size(comm, &size);
    return code == 0 ? length_of(size) : 0;
}

/* The neighbours of a process in a virtual topology: those it receives from and those it sends to. */
static void neighbours(a_handle comm, int *sources, int *destinations)
{
    int kind = A_MPI_UNDEFINED, rank = 0, weighted = 0;
    *sources = *destinations = 0;
    if (a_Topo_test(comm, &kind) != 0) return;
    if (kind == A_MPI_DIST_GRAPH) {
        a_Dist_graph_neighbors_count(comm, sources, destinations, &weighted);
    } else if (kind == A_MPI_CART) {
        a_Cartdim_get(comm, sources);
        *destinations = *sources *= 2;
    } else if (kind == A_MPI_GRAPH && a_Comm_rank(comm, &rank) == 0) {
        a_Graph_neighbors_count(comm, rank, sources);
        *destinations = *sources;
    }
}

size_t sources_of(a_handle comm)
{
    int sources, destinations;
    neighbours(comm, &sources, &destinations);
    return length_of(sources);
}

size_t destinations_of(a_handle comm)
{
    int sources, destinations;
    neighbours(comm, &sources, &destinations);
    return length_of(destinations);
}

/* Attributes. The value of a predefined one is the address of a number that may be a constant. */

static int predefined(int keyval, void *value, void *result)
{
    static int host, io, last_used_code;
    static int flavors[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_DYNAMIC,
                            MPI_WIN_FLAVOR_SHARED};
    static int models[] = {MPI_WIN_UNIFIED, MPI_WIN_SEPARATE};
    int *found;
    /* The base of a window is an address, not one of a number. */
    if (keyval == A_MPI_WIN_BASE) return 0;
    int number = *(int *)value;
    switch (keyval) {
    case A_MPI_HOST:
        host = out_rank(number);
        found = &host;
        break;
    case A_MPI_IO:
        io = out_rank(number);
        found = &io;
        break;
    case A_MPI_LASTUSEDCODE:
        last_used_code = out_error(number);
        found = &last_used_code;
        break;
    case A_MPI_WIN_CREATE_FLAVOR: found = &flavors[number - A_MPI_WIN_FLAVOR_CREATE]; break;
    case A_MPI_WIN_MODEL: found = &models[number - A_MPI_WIN_UNIFIED]; break;
    default: return 0;
    }
    *(int **)result = found;
    return 1;
}

#define GET_ATTR(name, call, Handle) \
    int P##name(Handle object, int keyval, void *value, int *flag) \
    { \
        int a_keyval = in_keyval(keyval), is_set = 0; \
        void *found = NULL; \
        int code = call(in_##Handle(object), a_keyval, value != NULL ? &found : NULL, \
                        flag != NULL ? &is_set : NULL); \
        if (code != 0) return out_error(code); \
        *flag = is_set; \
        if (is_set && (a_keyval >= 1000 || !predefined(a_keyval, found, value))) *(void **)value = found; \
        return MPI_SUCCESS; \
    } \
    ALIAS(name)
GET_ATTR(MPI_Comm_get_attr, a_Comm_get_attr, MPI_Comm)
GET_ATTR(MPI_Attr_get, a_Attr_get, MPI_Comm)
GET_ATTR(MPI_Type_get_attr, a_Type_get_attr, MPI_Datatype)
GET_ATTR(MPI_Win_get_attr, a_Win_get_attr, MPI_Win)

/* Datatypes. Some of the integers that a type was made of are constants; in the large form the sizes between
 * them lie elsewhere. */

static void out_contents(int combiner, int is_large, int *integers)
{
    if (combiner == A_MPI_COMBINER_SUBARRAY) {
        int order = is_large ? 1 : 3 * integers[0] + 1;
        integers[order] = out_order(integers[order]);
    } else if (combiner == A_MPI_COMBINER_DARRAY) {
        int ndims = integers[2], distributions = is_large ? 3 : 3 + ndims, order = distributions + 3 * ndims;
        for (int i = distributions; i < distributions + ndims; i++) {
            integers[i] = out_distribution(integers[i]);
            integers[i + ndims] = out_darg(integers[i + ndims]);
        }
        integers[order] = out_order(integers[order]);
    }
}

static void out_types(MPI_Datatype *to, const a_handle *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (from[i] != 0) to[i] = out_MPI_Datatype(from[i]);
    }
}

int PMPI_Type_get_contents(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
                           int integers[], MPI_Aint addresses[], MPI_Datatype datatypes[])
{
    a_handle a = in_MPI_Datatype(datatype), few[FEW];
    size_t count = length_of(max_datatypes);
    a_handle *found = room(few, sizeof few, count * sizeof *found);
    if (found == NULL) return MPI_ERR_NO_MEM;
    memset(found, 0, count * sizeof *found);
    int code = a_Type_get_contents(a, max_integers, max_addresses, max_datatypes, integers, addresses,
                                   datatypes != NULL ? found : NULL);
    int unused, combiner = 0;
    if (code == 0) code = a_Type_get_envelope(a, &unused, &unused, &unused, &combiner);
    if (code == 0) out_types(datatypes, found, count);
    if (code == 0) out_contents(combiner, 0, integers);
    leave(few, found);
    return out_error(code);
}
ALIAS(MPI_Type_get_contents)

int PMPI_Type_get_contents_c(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
                             MPI_Count max_large_counts, MPI_Count max_datatypes, int integers[],
                             MPI_Aint addresses[], MPI_Count large_counts[], MPI_Datatype datatypes[])
{
    a_handle a = in_MPI_Datatype(datatype), few[FEW];
    size_t count = length_of(max_datatypes);
    a_handle *found = room(few, sizeof few, count * sizeof *found);
    if (found == NULL) return MPI_ERR_NO_MEM;
    memset(found, 0, count * sizeof *found);
    int code = a_Type_get_contents_c(a, max_integers, max_addresses, max_large_counts, max_datatypes,
                                     integers, addresses, large_counts, datatypes != NULL ? found : NULL);
    int combiner = 0;
    MPI_Count unused, large = 0;
    if (code == 0) code = a_Type_get_envelope_c(a, &unused, &unused, &large, &unused, &combiner);
    if (code == 0) out_types(datatypes, found, count);
    if (code == 0) out_contents(combiner, large > 0, integers);
    leave(few, found);
    return out_error(code);
}
ALIAS(MPI_Type_get_contents_c)

/* Gives a type the bounds that it has not by its data. */
static int with_bounds(a_handle *type, int has_lower, MPI_Count lower, int has_upper, MPI_Count upper)
{
    MPI_Count lb = 0, extent = 0;
    int code = a_Type_get_extent_x(*type, &lb, &extent);
    if (code != 0) return code;
    if (!has_upper) upper = lb + extent;
    if (!has_lower) lower = lb;
    a_handle made = 0;
    code = a_Type_create_resized_c(*type, lower, upper - lower, &made);
    if (code == 0) code = a_Type_free(type);
    if (code == 0) *type = made;
    return code;
}

/* MPI_LB and MPI_UB, which MPI-3.0 removed, are the bounds of the type: without them the type is made, and
 * resized. */
#define STRUCT(name, call, Count, Displacement) \
    static int name##_bounded(size_t n, const Count lengths[], const Displacement displacements[], \
                              const MPI_Datatype types[], a_handle *a_types, a_handle *a_newtype) \
    { \
        Count *kept = malloc((n + 1) * sizeof *kept); \
        Displacement *at = malloc((n + 1) * sizeof *at), lower = 0, upper = 0; \
        int has_lower = 0, has_upper = 0, code = A_MPI_ERR_NO_MEM; \
        size_t used = 0; \
        for (size_t i = 0; kept != NULL && at != NULL && i < n; i++) { \
            if (types[i] == MPI_LB) { \
                if (!has_lower || displacements[i] < lower) lower = displacements[i]; \
                has_lower = 1; \
            } else if (types[i] == MPI_UB) { \
                if (!has_upper || displacements[i] > upper) upper = displacements[i]; \
                has_upper = 1; \
            } else { \
                a_types[used] = a_types[i]; \
                kept[used] = lengths[i]; \
                at[used++] = displacements[i]; \
            } \
        } \
        if (kept != NULL && at != NULL) code = call((Count)used, kept, at, a_types, a_newtype); \
        if (code == 0) code = with_bounds(a_newtype, has_lower, lower, has_upper, upper); \
        free(kept); \
        free(at); \
        return code; \
    } \
    int P##name(Count count, const Count lengths[], const Displacement displacements[], \
                const MPI_Datatype types[], MPI_Datatype *newtype) \
    { \
        size_t n = types != NULL ? length_of(count) : 0; \
        a_handle few[FEW], a_newtype = 0, *a_types = room(few, sizeof few, n * sizeof *a_types); \
        int code = A_MPI_ERR_NO_MEM, has_bounds = 0; \
        if (a_types != NULL) { \
            for (size_t i = 0; i < n; i++) { \
                int is_bound = types[i] == MPI_LB || types[i] == MPI_UB; \
                has_bounds |= is_bound; \
                a_types[i] = is_bound ? 0 : in_MPI_Datatype(types[i]); \
            } \
            if (has_bounds && lengths != NULL && displacements != NULL && newtype != NULL) { \
                code = name##_bounded(n, lengths, displacements, types, a_types, &a_newtype); \
            } else { \
                code = call(count, lengths, displacements, types != NULL ? a_types : NULL, \
                            newtype != NULL ? &a_newtype : NULL); \
            } \
        } \
        if (code == 0) *newtype = out_MPI_Datatype(a_newtype); \
        leave(few, a_types); \
        return out_error(code); \
    } \
    ALIAS(name)
STRUCT(MPI_Type_create_struct, a_Type_create_struct, int, MPI_Aint)
STRUCT(MPI_Type_create_struct_c, a_Type_create_struct_c, MPI_Count, MPI_Count)

/* Processes. Only what the root has counts. */

static int is_root(a_handle comm, int root)
{
    int rank = -1;
    return a_Comm_rank(comm, &rank) == 0 && rank == root;
}

static void out_codes(int codes[], int count)
{
    for (int i = 0; codes != MPI_ERRCODES_IGNORE && i < count; i++)
        codes[i] = out_error(codes[i]);
}

/* Whether a spawn that ended so has written a code for each process. */
static int are_codes_told(int code)
{
    return code == 0 || code == A_MPI_ERR_SPAWN;
}

int PMPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                    MPI_Comm *intercomm, int codes[])
{
    a_handle a_comm = in_MPI_Comm(comm), made = 0;
    a_handle a_info = is_root(a_comm, root) ? in_MPI_Info(info) : A_MPI_INFO_NULL;
    int code = a_Comm_spawn(command, argv, maxprocs, a_info, root, a_comm, &made, codes);
    if (code == 0) *intercomm = out_MPI_Comm(made);
    if (are_codes_told(code)) out_codes(codes, maxprocs);
    return out_error(code);
}
ALIAS(MPI_Comm_spawn)

int PMPI_Comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[],
                             const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm,
                             int codes[])
{
    a_handle a_comm = in_MPI_Comm(comm), made = 0;
    int counts = is_root(a_comm, root), total = 0;
    size_t n = counts ? length_of(count) : 0;
    a_handle *a_infos = malloc((n + 1) * sizeof *a_infos);
    if (a_infos == NULL) return MPI_ERR_NO_MEM;
    for (size_t i = 0; i < n; i++) {
        a_infos[i] = in_MPI_Info(infos[i]);
        total += maxprocs[i];
    }
    int code = a_Comm_spawn_multiple(count, commands, argvs, maxprocs, a_infos, root, a_comm, &made, codes);
    if (code == 0) *intercomm = out_MPI_Comm(made);
    if (are_codes_told(code)) out_codes(codes, total);
    free(a_infos);
    return out_error(code);
}
ALIAS(MPI_Comm_spawn_multiple)

/* What MPI-3.0 removed. */

typedef MPI_Comm_errhandler_function MPI_Handler_function;
#define REMOVED(name, params) \
    extern int name params; \
    extern int P##name params; \
    ALIAS(name) \
    int P##name params

REMOVED(MPI_Address, (void *location, MPI_Aint *address))
{
    return PMPI_Get_address(location, address);
}

REMOVED(MPI_Errhandler_create, (MPI_Handler_function * function, MPI_Errhandler *errhandler))
{
    return PMPI_Comm_create_errhandler(function, errhandler);
}

REMOVED(MPI_Errhandler_get, (MPI_Comm comm, MPI_Errhandler *errhandler))
{
    return PMPI_Comm_get_errhandler(comm, errhandler);
}

REMOVED(MPI_Errhandler_set, (MPI_Comm comm, MPI_Errhandler errhandler))
{
    return PMPI_Comm_set_errhandler(comm, errhandler);
}

REMOVED(MPI_Type_extent, (MPI_Datatype datatype, MPI_Aint *extent))
{
    MPI_Aint lb;
    return PMPI_Type_get_extent(datatype, &lb, extent);
}

REMOVED(MPI_Type_lb, (MPI_Datatype datatype, MPI_Aint *displacement))
{
    MPI_Aint extent;
    return PMPI_Type_get_extent(datatype, displacement, &extent);
}

REMOVED(MPI_Type_ub, (MPI_Datatype datatype, MPI_Aint *displacement))
{
    MPI_Aint lb = 0, extent = 0;
    int code = PMPI_Type_get_extent(datatype, &lb, &extent);
    if (code == MPI_SUCCESS) *displacement = lb + extent;
    return code;
}

REMOVED(MPI_Type_hvector, (int count, int length, MPI_Aint stride, MPI_Datatype old, MPI_Datatype *newtype))
{
    return PMPI_Type_create_hvector(count, length, stride, old, newtype);
}

REMOVED(MPI_Type_hindexed,
        (int count, int lengths[], MPI_Aint displacements[], MPI_Datatype old, MPI_Datatype *newtype))
{
    return PMPI_Type_create_hindexed(count, lengths, displacements, old, newtype);
}

REMOVED(MPI_Type_struct,
        (int count, int lengths[], MPI_Aint displacements[], MPI_Datatype types[], MPI_Datatype *newtype))
{
    return PMPI_Type_create_struct(count, lengths, displacements, types, newtype);
}

/* Handles as integers: see conversions.h of the ABI. */

#define CONVERSIONS(Kind, Handle) \
    extern MPI_Fint PMPI_##Kind##_c2f(Handle), MPI_##Kind##_c2f(Handle); \
    extern Handle PMPI_##Kind##_f2c(MPI_Fint), MPI_##Kind##_f2c(MPI_Fint); \
    MPI_Fint PMPI_##Kind##_c2f(Handle x) \
    { \
        return integer_of_##Handle(x); \
    } \
    Handle PMPI_##Kind##_f2c(MPI_Fint x) \
    { \
        return Handle##_of_integer(x); \
    } \
    int PMPI_##Kind##_toint(Handle x) \
    { \
        return integer_of_##Handle(x); \
    } \
    Handle PMPI_##Kind##_fromint(int x) \
    { \
        return Handle##_of_integer(x); \
    } \
    ALIAS(MPI_##Kind##_c2f) \
    ALIAS(MPI_##Kind##_f2c) \
    ALIAS(MPI_##Kind##_toint) \
    ALIAS(MPI_##Kind##_fromint)
CONVERSIONS(Comm, MPI_Comm)
CONVERSIONS(Errhandler, MPI_Errhandler)
CONVERSIONS(File, MPI_File)
CONVERSIONS(Group, MPI_Group)
CONVERSIONS(Info, MPI_Info)
CONVERSIONS(Message, MPI_Message)
CONVERSIONS(Op, MPI_Op)
CONVERSIONS(Request, MPI_Request)
CONVERSIONS(Session, MPI_Session)
CONVERSIONS(Type, MPI_Datatype)
CONVERSIONS(Win, MPI_Win)

/* A Fortran status is a C status. */

#define COPY_STATUS(name, From, To) \
    extern int P##name(const From *from, To *to), name(const From *from, To *to); \
    int P##name(const From *from, To *to) \
    { \
        memcpy(to, from, sizeof(MPI_Status)); \
        return MPI_SUCCESS; \
    } \
    ALIAS(name)
COPY_STATUS(MPI_Status_c2f, MPI_Status, MPI_Fint)
COPY_STATUS(MPI_Status_f2c, MPI_Fint, MPI_Status)
COPY_STATUS(MPI_Status_c2f08, MPI_Status, MPI_F08_status)
COPY_STATUS(MPI_Status_f082c, MPI_F08_status, MPI_Status)
COPY_STATUS(MPI_Status_f2f08, MPI_Fint, MPI_F08_status)
COPY_STATUS(MPI_Status_f082f, MPI_F08_status, MPI_Fint)
