/* Messages of data with gaps, at every protocol's lengths: each mode of sending, either end strided, gaps untouched. */
#include "check.h"

enum { UNIT = 3, STRIDE = 7 };

/* `units` blocks of UNIT bytes, one every STRIDE bytes. */
static MPI_Datatype strided(int units)
{
    MPI_Datatype type;
    OK(MPI_Type_vector(units, UNIT, STRIDE, MPI_CHAR, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

static size_t reach(int units) { return (size_t)units * STRIDE + UNIT; }

static void spread(unsigned char *memory, int units, uint32_t seed)
{
    memset(memory, 0xee, reach(units));
    for (int u = 0; u < units; u++)
        for (int i = 0; i < UNIT; i++) memory[u * STRIDE + i] = pattern_byte(seed, (size_t)u * UNIT + i);
}

/* The first wrong byte of the first `good` units: data, or a gap that is not as it was; or -1. */
static long wrong(const unsigned char *memory, int units, int good, uint32_t seed)
{
    for (int u = 0; u < units; u++)
        for (int i = 0; i < STRIDE; i++) {
            unsigned char expected = i < UNIT && u < good ? pattern_byte(seed, (size_t)u * UNIT + i) : 0xee;
            if (u == units - 1 && i >= UNIT) break;
            if (memory[u * STRIDE + i] != expected) return u * STRIDE + i;
        }
    return -1;
}

/* What all ways work with: a ring, buffers, and the type of `units` units. */
static int next, last, units, count;
static size_t bytes;
static unsigned char *out, *in, *packed;
static MPI_Datatype type;
static MPI_Request requests[2];
static MPI_Status status;

/* Strided to strided. */
static void both_strided(void)
{
    spread(out, units, check_rank), memset(in, 0xee, reach(units));
    OK(MPI_Irecv(in, 1, type, last, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, 1, type, next, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK(wrong(in, units, units, last) == -1, "%d units: byte %ld", units, wrong(in, units, units, last));
    CHECK_STATUS(status, last, 1, bytes);
    OK(MPI_Get_count(&status, type, &count));
    CHECK(count == (units > 0), "%d units: %d elements", units, count);
    OK(MPI_Get_elements(&status, type, &count));
    CHECK(count == (int)bytes, "%d units: %d basic elements", units, count);
}

/* Strided to contiguous, and back; the receive comes late, from a probe. */
static void one_strided(void)
{
    MPI_Message message;
    OK(MPI_Issend(out, 1, type, next, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Probe(last, 2, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, last, 2, bytes);
    OK(MPI_Recv(packed, (int)bytes, MPI_CHAR, last, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(pattern_wrong(packed, bytes, last) == -1, "%d units: packed byte %ld", units, pattern_wrong(packed, bytes, last));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    pattern_fill(packed, bytes, check_rank), memset(in, 0xee, reach(units));
    OK(MPI_Isend(packed, (int)bytes, MPI_BYTE, next, 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Mprobe(last, 3, MPI_COMM_WORLD, &message, &status));
    OK(MPI_Mrecv(in, 1, type, &message, MPI_STATUS_IGNORE));
    CHECK(wrong(in, units, units, last) == -1, "%d units: unpacked byte %ld", units, wrong(in, units, units, last));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

/* Both at once, in place, and buffered. */
static void exchanged(void)
{
    unsigned char *attached = check_alloc(bytes + 1024);
    memset(in, 0xee, reach(units));
    OK(MPI_Sendrecv(out, 1, type, next, 4, in, 1, type, last, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(wrong(in, units, units, last) == -1, "%d units: exchanged byte %ld", units, wrong(in, units, units, last));
    spread(in, units, check_rank);
    OK(MPI_Sendrecv_replace(in, 1, type, next, 5, last, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(wrong(in, units, units, last) == -1, "%d units: replaced byte %ld", units, wrong(in, units, units, last));
    memset(in, 0xee, reach(units));
    OK(MPI_Buffer_attach(attached, (int)bytes + 1024));
    OK(MPI_Bsend(out, 1, type, next, 6, MPI_COMM_WORLD));
    OK(MPI_Recv(in, 1, type, last, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(wrong(in, units, units, last) == -1, "%d units: buffered byte %ld", units, wrong(in, units, units, last));
    OK(MPI_Buffer_detach(&attached, &count));
    free(attached);
}

/* Again and again; the type may go when the requests are made. */
static void persistent(void)
{
    OK(MPI_Send_init(out, 1, type, next, 7, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Recv_init(in, 1, type, last, 7, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Type_free(&type));
    for (int round = 0; round < 3; round++) {
        spread(out, units, 100 * round + check_rank), memset(in, 0xee, reach(units));
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        long at = wrong(in, units, units, 100 * round + last);
        CHECK(at == -1, "%d units, round %d: byte %ld", units, round, at);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

/* A shorter message than the receive, found by testing. */
static void shorter(void)
{
    int flag;
    type = strided(units);
    memset(in, 0xee, reach(units));
    int some = units / 2;
    OK(MPI_Irecv(in, 1, type, last, 8, MPI_COMM_WORLD, &requests[0]));
    pattern_fill(packed, bytes, check_rank);
    OK(MPI_Send(packed, some * UNIT, MPI_CHAR, next, 8, MPI_COMM_WORLD));
    do OK(MPI_Test(&requests[0], &flag, &status));
    while (!flag);
    CHECK(wrong(in, units, some, last) == -1, "%d units: byte %ld of part", units, wrong(in, units, some, last));
    OK(MPI_Get_count(&status, type, &count));
    CHECK(count == (some == 0 ? 0 : some == units ? 1 : MPI_UNDEFINED), "%d units: count %d of part", units, count);
    OK(MPI_Type_free(&type));
}

static void all_ways(void)
{
    bytes = (size_t)units * UNIT;
    type = strided(units);
    out = check_alloc(reach(units)), in = check_alloc(reach(units)), packed = check_alloc(bytes);
    both_strided();
    one_strided();
    exchanged();
    persistent();
    shorter();
    free(out), free(in), free(packed);
}

/* Absolute addresses, a structure, and pairs that match what they are made of. */
static void addresses(void)
{
    struct { double value; int index; } pair[3], got[3];
    MPI_Aint at[2];
    for (int i = 0; i < 3; i++) pair[i].value = check_rank + i / 4.0, pair[i].index = i, got[i].index = -1;
    OK(MPI_Get_address(&got[0].value, &at[0]));
    OK(MPI_Get_address(&got[0].index, &at[1]));
    MPI_Datatype row;
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, at, (MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &row));
    OK(MPI_Type_create_resized(row, at[0], sizeof *pair, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Sendrecv(pair, 3, MPI_DOUBLE_INT, next, 9, MPI_BOTTOM, 3, type, last, 9, MPI_COMM_WORLD, &status));
    for (int i = 0; i < 3; i++)
        CHECK(got[i].value == last + i / 4.0 && got[i].index == i, "pair %d is %f, %d", i, got[i].value, got[i].index);
    OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &count));
    CHECK(count == 3, "%d pairs", count);
    OK(MPI_Get_elements(&status, type, &count));
    CHECK(count == 6, "%d basic elements", count);
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    next = (check_rank + 1) % check_size, last = (check_rank + check_size - 1) % check_size;
    for (int l = 0; l < CHECK_LENGTHS; l++) {
        units = check_lengths[l] / UNIT;
        all_ways();
    }
    addresses();
    return check_end();
}
