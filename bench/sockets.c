/* What a TCP connection over the loopback takes two ranks of a host, without messages: microseconds. The
 * sockets are set up as the library's, and a rank that waits asks again and again.
 *
 *   socket_send    one send of so many bytes, which nobody reads meanwhile
 *   socket_relay   so many bytes one way, in turn; the other side reads them as they come
 *   socket_rate    windows of 16 sends of so many bytes, each window answered by a byte: one send
 *
 * AYATORI_TCP_CONGESTION: as for the library's. */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

/* The library's sockets take so much beyond what is on its way. */
#define UNSENT_MAX (256 << 10)
#define TURNS_MAX 2000
#define WINDOW 16
/* What the library sends for a message of 8 B, and what the system sends as a whole. */
#define FRAME 64
#define SEGMENT_MAX (60 << 10)
#define STREAM_MAX (32 << 10)

struct stream { int socket; char *out, *in; size_t bytes; };

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

static void send_all(struct stream *s)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t count = send(s->socket, s->out + at, s->bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count > 0) at += (size_t)count;
    }
}

static void receive_all(struct stream *s)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t count = recv(s->socket, s->in + at, s->bytes - at, MSG_DONTWAIT);
        if (count > 0) at += (size_t)count;
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
    struct stream *s = context, answer = {s->socket, s->out, s->in, 1};
    for (int i = 0; i < repetitions; i++) {
        for (int w = 0; w < WINDOW && bench_rank == 0; w++) send_all(s);
        if (bench_rank == 1) receive_all(&(struct stream){s->socket, s->out, s->in, WINDOW * s->bytes});
        if (bench_rank == 1) send_all(&answer);
        if (bench_rank == 0) receive_all(&answer);
    }
}

/* Rank 0 sends while rank 1 waits in shared memory. The median of one send each. */
static void send_alone(struct stream *s)
{
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
        goes_on = MPI_Wtime() < end;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    bench_near_probe();
    bench_result("socket_send", s->bytes, bench_median(sends, turns) * 1e6, "us");
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64,        1 << 10,   4 << 10,   16 << 10,  32 << 10, 60 << 10, 64 << 10,
                                   128 << 10, 256 << 10, 512 << 10, 1 << 20,   2 << 20,  4 << 20};
    bench_start(&argc, &argv);
    bench_need_two(argv[0]);
    struct stream s = {connection(), bench_buffer(4 << 20), bench_buffer(4 << 20), FRAME};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        s.bytes = sizes[i];
        bench_result("socket_relay", s.bytes, bench_measure(to_and_fro, &s) / 2 * 1e6, "us");
        if (s.bytes <= SEGMENT_MAX) send_alone(&s);
        if (s.bytes <= STREAM_MAX)
            bench_result("socket_rate", s.bytes, bench_measure(windows, &s) / WINDOW * 1e6, "us");
    }
    close(s.socket);
    free(s.out);
    free(s.in);
    MPI_Finalize();
    return 0;
}
