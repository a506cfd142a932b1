/* Info objects: before, while and after MPI runs. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Info info, copy;
    int flag, count, length;
    char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL], long_key[MPI_MAX_INFO_KEY + 1], long_value[MPI_MAX_INFO_VAL + 1];

    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "first", "one"));
    start();
    OK(MPI_Info_set(info, "second", "two words"));
    OK(MPI_Info_set(info, "first", "1"));
    OK(MPI_Info_get_nkeys(info, &count)); CHECK(count == 2);
    OK(MPI_Info_get_nthkey(info, 1, key)); CHECK(!strcmp(key, "second"));
    FAILS(MPI_ERR_ARG, MPI_Info_get_nthkey(info, 2, key));
    FAILS(MPI_ERR_ARG, MPI_Info_get_nthkey(info, -1, key));
    OK(MPI_Info_get_valuelen(info, "second", &length, &flag)); CHECK(flag && length == 9);
    OK(MPI_Info_get_valuelen(info, "third", &length, &flag)); CHECK(!flag);
    OK(MPI_Info_get(info, "second", 3, value, &flag)); CHECK(flag && !strcmp(value, "two"));
    length = 4;
    OK(MPI_Info_get_string(info, "second", &length, value, &flag)); CHECK(flag && length == 10 && !strcmp(value, "two"));
    length = 0;
    OK(MPI_Info_get_string(info, "first", &length, NULL, &flag)); CHECK(flag && length == 2);
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "first"));
    FAILS(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "first"));
    OK(MPI_Info_get_nkeys(copy, &count)); CHECK(count == 2);

    memset(long_key, 'k', sizeof long_key); long_key[MPI_MAX_INFO_KEY] = 0;
    memset(long_value, 'v', sizeof long_value); long_value[MPI_MAX_INFO_VAL] = 0;
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, long_key, "x"));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, "", "x"));
    FAILS(MPI_ERR_INFO_VALUE, MPI_Info_set(info, "k", long_value));
    FAILS(MPI_ERR_ARG, MPI_Info_set(info, NULL, "x"));
    FAILS(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_NULL, "k", "v"));
    FAILS(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_ENV, "k", "v"));
    FAILS(MPI_ERR_INFO, MPI_Info_dup((MPI_Info)0xdeadbeef, &copy));

    length = sizeof value;
    OK(MPI_Info_get_string(MPI_INFO_ENV, "command", &length, value, &flag));
    CHECK(flag && strstr(value, "info"));
    OK(MPI_Info_free(&copy));
    OK(MPI_Info_create_env(argc, argv, &copy));
    length = sizeof value;
    OK(MPI_Info_get_string(copy, "command", &length, value, &flag)); CHECK(flag && !strcmp(value, argv[0]));
    MPI_Info stale = copy;
    OK(MPI_Info_free(&copy));
    FAILS(MPI_ERR_INFO, MPI_Info_free(&stale));
    OK(MPI_Finalize());
    OK(MPI_Info_free(&info));
    return failures ? 1 : 0;
}
