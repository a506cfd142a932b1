/* external32: bytes as the standard writes them down, of basic and of derived types, in both widths (MPI-5.0, 5.3). */
#include "check.h"

struct mixed { char c; double d; long l; };

int main(int argc, char **argv)
{
    static const unsigned char expected[] = {0xff, 0xff, 0xff, 0xfe, 0, 0, 1, 2};
    unsigned char bytes[256] = {0};
    int in[2] = {-2, 258}, out[2] = {0};
    MPI_Aint size, position = 0, extent, lb;
    MPI_Count size_c, position_c = 0;
    MPI_Datatype type, row;
    check_start(&argc, &argv);

    OK(MPI_Pack_external_size("external32", 2, MPI_INT, &size));
    CHECK(size == 8, "size %d of two ints", (int)size);
    OK(MPI_Pack_external("external32", in, 2, MPI_INT, bytes, sizeof bytes, &position));
    CHECK(position == 8 && !memcmp(bytes, expected, 8), "two ints are written wrongly");
    position = 0;
    OK(MPI_Unpack_external("external32", bytes, 8, &position, out, 2, MPI_INT));
    CHECK(position == 8 && out[0] == -2 && out[1] == 258, "%d %d came back", out[0], out[1]);

    OK(MPI_Pack_external_size("external32", 1, MPI_LONG_DOUBLE, &size));
    CHECK(size == 16, "size %d of a long double", (int)size);
    OK(MPI_Pack_external_size("external32", 3, MPI_DOUBLE_INT, &size));
    CHECK(size == 36, "size %d of three pairs", (int)size);

    long double wide[2] = {-1.25L, 3e1000L}, wide_back[2] = {0};
    position = 0;
    OK(MPI_Pack_external("external32", wide, 2, MPI_LONG_DOUBLE, bytes, sizeof bytes, &position));
    CHECK(bytes[0] == 0xbf && bytes[1] == 0xff && bytes[2] == 0x40 && bytes[3] == 0, "-1.25 is %x %x %x %x", bytes[0],
          bytes[1], bytes[2], bytes[3]);
    position = 0;
    OK(MPI_Unpack_external("external32", bytes, sizeof bytes, &position, wide_back, 2, MPI_LONG_DOUBLE));
    CHECK(wide[0] == wide_back[0] && wide[1] == wide_back[1], "long doubles are not back");

    /* A structure with gaps, every other one of four. */
    struct mixed from[4], to[4];
    for (int i = 0; i < 4; i++) from[i] = (struct mixed){(char)('a' + i), i + 0.5, -i}, to[i] = (struct mixed){0, 0, 0};
    MPI_Aint at[3] = {0, (char *)&from->d - (char *)from, (char *)&from->l - (char *)from};
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 1}, at, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_LONG}, &row));
    OK(MPI_Type_get_extent(row, &lb, &extent));
    CHECK(extent == sizeof(struct mixed), "extent %d, not %d", (int)extent, (int)sizeof(struct mixed));
    OK(MPI_Type_vector(2, 1, 2, row, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Pack_external_size_c("external32", 1, type, &size_c));
    CHECK(size_c >= 2 * (1 + 8 + 4) && size_c <= 2 * (1 + 8 + 8), "size %d of two structures", (int)size_c);
    OK(MPI_Pack_external_c("external32", from, 1, type, bytes, size_c, &position_c));
    CHECK(position_c == size_c, "position %d", (int)position_c);
    CHECK(bytes[0] == 'a' && bytes[1] == 0x3f && bytes[2] == 0xe0, "the structure is written wrongly");
    position_c = 0;
    OK(MPI_Unpack_external_c("external32", bytes, size_c, &position_c, to, 1, type));
    for (int i = 0; i < 4; i += 2)
        CHECK(to[i].c == from[i].c && to[i].d == from[i].d && to[i].l == from[i].l, "structure %d is not back", i);
    CHECK(to[1].c == 0 && to[1].d == 0, "what lies between was touched");
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&type));

    /* No data, however many elements. */
    OK(MPI_Type_contiguous(0, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    position_c = 3;
    OK(MPI_Pack_external_c("external32", in, (MPI_Count)1 << 50, type, bytes, 3, &position_c));
    OK(MPI_Unpack_external_c("external32", bytes, 3, &position_c, out, (MPI_Count)1 << 50, type));
    CHECK(position_c == 3, "position %d", (int)position_c);
    OK(MPI_Type_free(&type));
    return check_end();
}
