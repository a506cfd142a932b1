/* How long a program goes on: until a file appears, so that its driver decides by what it has counted, or for a time. */
#ifndef AYATORI_UNTIL_H
#define AYATORI_UNTIL_H

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double until_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* `until` is the path of the file, or a number of seconds since `begin` (both by CLOCK_REALTIME). */
static int until_goes_on(const char *until, double begin)
{
    return *until == '/' ? access(until, F_OK) != 0 : until_now_s() - begin < atof(until);
}

#endif
