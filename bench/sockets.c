/* What a TCP connection over the loopback takes two ranks of a host, without messages: microseconds. The
 * sockets are set up as the library's, and a rank that waits asks as often: for the rest of something long,
 * every 8 us (each question takes the socket's lock).
 *
 *   socket_send    one send of so many bytes, which nobody reads meanwhile
 *   socket_relay   so many bytes one way, in turn, 320 KiB a send; the other side reads them as they come
 *   socket_rate    windows of 16 sends of so many bytes, one after the other in memory, each window answered
 *                  by a byte: one send
 *   socket_stream  the same of long sends
 *
 * AYATORI_TCP_CONGESTION: as for the library's. */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* The library's sockets take so much beyond what is on its way. */
#define UNSENT_MAX (512 << 10)
#define SEND_MAX ((size_t)320 << 10) /* as the library's longest packets */
#define LET_BE_S 8e-6
#define TURNS_MAX 2000
#define WINDOW 16
/* What the library sends for a message of 8 B, and what the system sends as a whole. */
#define FRAME 64
#define SEGMENT_MAX (60 << 10)
#define SHORT_MAX 1024
#define STREAM_MAX (64 << 10)
#define LONG_STREAM_MAX ((size_t)4 << 20)

struct stream { int socket; char *out, *in; size_t bytes; int is_long; };

static void failed(const char *what)
{
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 5);
}

/* A connection between the two ranks. */
static int connection(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, most = UNSENT_MAX;
    if (listener < 0) failed("socket");
    int stream = listener;
    if (bench_rank == 0) {
        if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1)) failed("listen");
        if (getsockname(listener, (struct sockaddr *)&address, &length)) failed("getsockname");
    }
    MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (bench_rank == 1) {
        if (connect(stream, (struct sockaddr *)&address, length)) failed("connect");
    } else {
        stream = accept(listener, NULL, NULL);
        if (stream < 0) failed("accept");
        close(listener);
    }
    const char *congestion = getenv("AYATORI_TCP_CONGESTION");
    if (congestion)
        setsockopt(stream, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion));
    setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(stream, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof most);
    return stream;
}

/* The library sends what is short from one place, of what is longer the head and the header, and the payload
 * from where it lies: how fast the system copies depends on how the two places are aligned (32 KiB took 13 us
 * one way from an odd place, and 10.4 from a line's begin, on an AMD EPYC). */
static ssize_t send_some(int socket, char *from, size_t bytes)
{
    static char head[44];
    if (bytes <= SHORT_MAX) return send(socket, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    struct iovec parts[] = {{head, 0}, {head, 20}, {head + 20, 24}, {from, bytes - sizeof head}, {head, 0}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 5};
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_all(struct stream *s)
{
    struct pollfd room = {s->socket, POLLOUT, 0};
    for (size_t at = 0; at < s->bytes;) {
        size_t rest = s->bytes - at;
        size_t bytes = s->is_long && rest > SEND_MAX ? SEND_MAX : rest;
        ssize_t count = send_some(s->socket, s->out + at, bytes);
        if (count > 0) at += (size_t)count;
        while (count <= 0 && poll(&room, 1, 0) == 0) continue;
    }
}

/* Until more has come. */
static void let_be(struct stream *s)
{
    int waiting = 0;
    while (waiting == 0) {
        double end = MPI_Wtime() + LET_BE_S;
        while (MPI_Wtime() < end) continue;
        if (ioctl(s->socket, FIONREAD, &waiting)) failed("ioctl");
    }
}

static void receive_all(struct stream *s)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t count = recv(s->socket, s->in + at, s->bytes - at, MSG_DONTWAIT);
        if (count > 0) at += (size_t)count;
        if (count <= 0 && at > 0 && s->is_long) let_be(s);
    }
}

static void to_and_fro(void *context, int repetitions)
{
    for (int i = 0; i < repetitions; i++) {
        if (bench_rank == 0) send_all(context);
        receive_all(context);
        if (bench_rank == 1) send_all(context);
    }
}

/* One way, as bench/rate.c: the reader takes all that has come at once. */
static void windows(void *context, int repetitions)
{
    struct stream *s = context, answer = {s->socket, s->out, s->in, 1, 0};
    for (int i = 0; i < repetitions; i++) {
        for (int w = 0; w < WINDOW && bench_rank == 0; w++)
            send_all(&(struct stream){s->socket, s->out + (size_t)w * s->bytes, s->in, s->bytes, 0});
        if (bench_rank == 1) receive_all(&(struct stream){s->socket, s->out, s->in, WINDOW * s->bytes, 0});
        if (bench_rank == 1) send_all(&answer);
        if (bench_rank == 0) receive_all(&answer);
    }
}

/* Rank 0 sends while rank 1 waits in shared memory. The median of one send each. Rank 1 answers, so that the
 * system's acknowledgements go with data, as those of most messages do: one alone is part of the send that it
 * acknowledges, over the loopback (1.2 us on an AMD EPYC). */
static void send_alone(struct stream *s)
{
    struct stream answer = {s->socket, s->out, s->in, FRAME, 0};
    static double sends[TURNS_MAX];
    int turns = 0, goes_on = 1;
    bench_near_probe();
    double end = MPI_Wtime() + bench_budget_s();
    while (turns < TURNS_MAX && goes_on) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        if (bench_rank == 0) send_all(s);
        sends[turns++] = MPI_Wtime() - begin;
        MPI_Barrier(MPI_COMM_WORLD);
        if (bench_rank == 1) receive_all(s);
        if (bench_rank == 1) send_all(&answer);
        if (bench_rank == 0) receive_all(&answer);
        goes_on = MPI_Wtime() < end;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    bench_near_probe();
    bench_result("socket_send", s->bytes, bench_median(sends, turns) * 1e6, "us");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64,        1 << 10,   4 << 10,   8 << 10,   16 << 10, 32 << 10, 60 << 10, 64 << 10,
                                   128 << 10, 256 << 10, 512 << 10, 1 << 20,   2 << 20,  4 << 20,
                                   16 << 20,  64 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct stream s = {connection(), bench_buffer(64 << 20), bench_buffer(64 << 20), FRAME, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        s.bytes = sizes[i];
        s.is_long = s.bytes > SEGMENT_MAX;
        bench_result("socket_relay", s.bytes, bench_measure(to_and_fro, &s) / 2 * 1e6, "us");
        if (s.bytes <= SEGMENT_MAX) send_alone(&s);
        if (s.bytes <= STREAM_MAX)
            bench_result("socket_rate", s.bytes, bench_measure(windows, &s) / WINDOW * 1e6, "us");
    }
    /* The system takes more and more of who sends so much at once, and does so ever after: how much depends
     * on what was sent before. So these have a connection of their own, as bench/bandwidth.c has. */
    close(s.socket);
    s.socket = connection();
    s.is_long = 0;
    for (s.bytes = 128 << 10; s.bytes <= LONG_STREAM_MAX; s.bytes *= 2)
        bench_result("socket_stream", s.bytes, bench_measure(windows, &s) / WINDOW * 1e6, "us");
    close(s.socket);
    free(s.out);
    free(s.in);
    MPI_Finalize();
    return 0;
}
