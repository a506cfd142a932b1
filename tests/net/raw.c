/* Ping-pong over one TCP connection with no library: what `cargo xtask net-test` compares with.
 *
 *   raw server|client ADDRESS BYTES
 *
 * Polls as an MPI library does. The client prints RESULT lines in the format of bench/bench.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 7
#define PORT 7801

static char data[1 << 22];

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void receive(int s, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t n = recv(s, data + got, bytes - got, MSG_DONTWAIT);
        if (n > 0) got += (size_t)n;
        else if (n == 0 || errno != EAGAIN) exit(1);
    }
}

static void give(int s, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        ssize_t n = send(s, data + sent, bytes - sent, 0);
        if (n <= 0) exit(1);
        sent += (size_t)n;
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    double samples[SAMPLES];
    int one = 1;
    if (argc != 4 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
    int is_server = !strcmp(argv[1], "server");
    size_t bytes = (size_t)atol(argv[3]);
    if (bytes == 0 || bytes > sizeof data) return 2;
    alarm(60);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (is_server) {
        if (bind(s, (void *)&address, sizeof address) || listen(s, 1)) return perror("listen"), 1;
        s = accept(s, NULL, NULL);
    } else {
        while (connect(s, (void *)&address, sizeof address)) {
            close(s);
            usleep(10000);
            s = socket(AF_INET, SOCK_STREAM, 0);
        }
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int turns = bytes > 65536 ? 300 : 10000;
    for (int k = 0; k < SAMPLES; k++) {
        double begin = now_s();
        for (int i = 0; i < turns; i++) {
            if (is_server) receive(s, bytes), give(s, bytes);
            else give(s, bytes), receive(s, bytes);
        }
        samples[k] = (now_s() - begin) / turns / 2 * 1e6;
    }
    qsort(samples, SAMPLES, sizeof *samples, compare);
    if (!is_server) printf("RESULT pingpong %zu %.3f us\n", bytes, samples[SAMPLES / 2]);
    return 0;
}
