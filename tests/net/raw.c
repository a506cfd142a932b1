/* TCP connections with no library: what `cargo xtask net-test` compares with.
 *
 *   raw server|client pingpong BYTES ADDRESS
 *   raw server|client stream SECONDS ADDRESS...       a connection each, all at once; the client sends
 *   raw server|client both SECONDS ADDRESS...         the same, both send
 *
 * Ping-pong polls as an MPI library does. RESULT lines in the format of bench/bench.h: of ping-pong from the client, of a
 * stream, in GB/s of all connections together (one way), from the server, with the slowest of all spans of 0.2 s (the first,
 * in which connections find their pace, left out), of both ways from either side what it received. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 7
#define PORT 7801
#define CONNECTIONS_MAX 8
#define CHUNK (256 << 10)
#define SPAN_S 0.2

static char data[16 << 20];

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

static int open_one(const char *address, int is_server)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) exit(2);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (is_server) {
        if (bind(s, (void *)&to, sizeof to) || listen(s, 1)) exit((perror("listen"), 1));
        int accepted = accept(s, NULL, NULL);
        close(s);
        s = accepted;
    } else {
        while (connect(s, (void *)&to, sizeof to)) {
            close(s);
            usleep(5000);
            s = socket(AF_INET, SOCK_STREAM, 0);
        }
    }
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return s;
}

static void ping_pong(int s, int is_server, size_t bytes)
{
    double samples[SAMPLES];
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
}

static void stream(struct pollfd *polls, int count, int is_server, double seconds)
{
    size_t places[CONNECTIONS_MAX] = {0}, total = 0, before = 0;
    double begin = 0, span_begin = 0, slowest = -1;
    int open = count, spans = 0;
    while (open > 0) {
        if (begin > 0 && !is_server && now_s() - begin > seconds) return;
        poll(polls, (nfds_t)count, 100);
        for (int c = 0; c < count; c++) {
            if (!(polls[c].revents & (POLLIN | POLLOUT | POLLHUP | POLLERR))) continue;
            char *place = data + places[c];
            ssize_t n = is_server ? recv(polls[c].fd, place, CHUNK, MSG_DONTWAIT) : send(polls[c].fd, place, CHUNK, MSG_DONTWAIT);
            if (n < 0 && errno == EAGAIN) continue;
            if (n <= 0) {
                polls[c].fd = -1;
                open--;
                continue;
            }
            if (begin == 0) begin = span_begin = now_s();
            total += (size_t)n;
            places[c] = (places[c] + CHUNK) % (sizeof data - CHUNK);
        }
        double now = now_s();
        if (begin > 0 && now - span_begin >= SPAN_S) {
            double rate = (double)(total - before) / (now - span_begin) * 1e-9;
            if (spans++ > 0 && (slowest < 0 || rate < slowest)) slowest = rate;
            before = total;
            span_begin = now;
        }
    }
    if (slowest >= 0) printf("RESULT slowest 0 %.4f GB/s\n", slowest);
    printf("RESULT stream 0 %.4f GB/s\n", (double)total / (now_s() - begin) * 1e-9);
}

/* Sends as much as it can and receives what comes, until the time is over. */
static void both(struct pollfd *polls, int count, double seconds)
{
    size_t places[CONNECTIONS_MAX] = {0}, total = 0;
    double begin = now_s(), end = begin + seconds;
    signal(SIGPIPE, SIG_IGN);
    while (now_s() < end) {
        poll(polls, (nfds_t)count, 100);
        for (int c = 0; c < count; c++) {
            if (polls[c].revents & (POLLIN | POLLHUP | POLLERR)) {
                ssize_t n = recv(polls[c].fd, data + places[c], CHUNK, MSG_DONTWAIT);
                if (n > 0) total += (size_t)n;
                /* The other side's time is over a little earlier. */
                if (n == 0 || (n < 0 && errno != EAGAIN)) end = 0;
                places[c] = (places[c] + CHUNK) % (sizeof data - CHUNK);
            }
            if (polls[c].revents & POLLOUT) send(polls[c].fd, data, CHUNK, MSG_DONTWAIT);
        }
    }
    printf("RESULT both 0 %.4f GB/s\n", (double)total / (now_s() - begin) * 1e-9);
}

int main(int argc, char **argv)
{
    struct pollfd polls[CONNECTIONS_MAX];
    int count = argc - 4;
    if (argc < 5 || count > CONNECTIONS_MAX) return 2;
    alarm(60);
    memset(data, 1, sizeof data);
    int is_server = !strcmp(argv[1], "server");
    for (int c = 0; c < count; c++) {
        polls[c].fd = open_one(argv[4 + c], is_server);
        polls[c].events = is_server ? POLLIN : POLLOUT;
    }
    if (!strcmp(argv[2], "stream")) {
        stream(polls, count, is_server, atof(argv[3]));
    } else if (!strcmp(argv[2], "both")) {
        for (int c = 0; c < count; c++) polls[c].events = POLLIN | POLLOUT;
        both(polls, count, atof(argv[3]));
    } else {
        size_t bytes = (size_t)atol(argv[3]);
        if (bytes == 0 || bytes > sizeof data) return 2;
        ping_pong(polls[0].fd, is_server, bytes);
    }
    return 0;
}
