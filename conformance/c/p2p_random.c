/* Messages at random, all of them checked: lengths around the borders of protocols, layouts with gaps and
 * backwards, every mode of sending, every way of receiving and of waiting, exact and any sources and tags.
 *
 *     p2p_random [SEED [ROUNDS]]      7 and 12 by default; a failure names the round
 */
#include "check.h"

enum { MESSAGES_MAX = 60, LENGTH_MAX = 1200000, ROUND_BYTES_MAX = 4 << 20, GUARD = 0xa5, MARGIN = 64 };
enum { ATTACHED = 8 << 20, BUFFERED_MAX = 1 << 20 };

/* What is matched: source and tag; the source; nothing. */
enum { EXACT, ANY_TAG, ANY_SOURCE, COMMS };
/* How a round goes: all calls mixed; receives first; sends first, and then probes; persistent requests. */
enum { MIXED, POSTED, PROBED, PERSISTENT, WAYS };

struct message {
    int source, dest, comm, tag, length, mode;
    uint32_t name;
};

/* Memory of a message: blocks at a stride, and guards around and between them. */
struct place {
    unsigned char *memory, *base;
    size_t bytes;
    long block, stride;
    int length, count;
    MPI_Datatype type;
};

/* Generators: the same on all ranks, and one's own. */
static uint64_t shared, own;
static MPI_Comm comms[COMMS];
static struct message messages[MESSAGES_MAX];
/* Of a rank, by place in `messages`: what it receives and what it sends. */
static int receives[MESSAGES_MAX], sends[MESSAGES_MAX], received, sent;
/* Of what it receives, then of what it sends. */
static struct place places[2 * MESSAGES_MAX];
static MPI_Request requests[2 * MESSAGES_MAX];
static MPI_Status statuses[2 * MESSAGES_MAX];
static int round_number, buffered;

static int below(uint64_t *state, int bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)bound);
}

static int random_length(void)
{
    int near = check_lengths[below(&shared, CHECK_LENGTHS)] + below(&shared, 3) - 1;
    int length = below(&shared, 4) ? near : below(&shared, 20000);
    return length < 0 || length > LENGTH_MAX ? below(&shared, 100) : length;
}

static unsigned char *byte_at(const struct place *place, long i)
{
    return place->base + i / place->block * place->stride + i % place->block;
}

/* Memory for so many bytes, in a layout of its own. */
static void lay_out(struct place *place, int length)
{
    static const int counts[] = {2, 3, 5, 16, 100};
    int blocks = below(&own, 2) ? 1 : counts[below(&own, 5)];
    if (length == 0 || length % blocks) blocks = 1;
    place->length = length;
    place->block = length ? length / blocks : 1;
    place->stride = place->block + below(&own, 3) * 8;
    place->bytes = (size_t)(blocks * place->stride) + 2 * MARGIN;
    place->memory = check_alloc(place->bytes);
    memset(place->memory, GUARD, place->bytes);
    place->base = place->memory + MARGIN;
    place->type = MPI_BYTE, place->count = length;
    if (blocks == 1) return;
    if (below(&own, 2)) {
        place->base += (blocks - 1) * place->stride;
        place->stride = -place->stride;
    }
    OK(MPI_Type_create_hvector(blocks, (int)place->block, place->stride, MPI_BYTE, &place->type));
    OK(MPI_Type_commit(&place->type));
    place->count = 1;
}

static void give_back(struct place *place)
{
    if (place->type != MPI_BYTE) OK(MPI_Type_free(&place->type));
    free(place->memory);
}

static void fill_place(struct place *place, uint32_t name)
{
    for (long i = 0; i < place->length; i++) *byte_at(place, i) = pattern_byte(name, (size_t)i);
}

/* The message is there, and nothing else was written. */
static void check_place(struct place *place, const struct message *message)
{
    long wrong = -1, beside = -1;
    for (long i = 0; i < message->length; i++) {
        if (*byte_at(place, i) != pattern_byte(message->name, (size_t)i) && wrong < 0) wrong = i;
        *byte_at(place, i) = GUARD;
    }
    for (size_t i = 0; i < place->bytes; i++)
        if (place->memory[i] != GUARD && beside < 0) beside = (long)i;
    int length = message->length, source = message->source;
    CHECK(wrong < 0, "round %d: byte %ld of %d from %d", round_number, wrong, length, source);
    CHECK(beside < 0, "round %d: byte %ld beside a message was written", round_number, beside);
}

static int source_of(const struct message *message)
{
    return message->comm == ANY_SOURCE ? MPI_ANY_SOURCE : message->source;
}

static int tag_of(const struct message *message)
{
    return message->comm == EXACT ? message->tag : MPI_ANY_TAG;
}

/* Sends by the message's mode. Blocking and ready modes only where the receive is posted. */
static void start_send(const struct message *message, struct place *place, MPI_Request *request,
                       int is_posted)
{
    const void *base = place->base;
    MPI_Comm comm = comms[message->comm];
    int count = place->count, to = message->dest, tag = message->tag;
    MPI_Datatype type = place->type;
    int fits = buffered + message->length + MPI_BSEND_OVERHEAD < BUFFERED_MAX;
    *request = MPI_REQUEST_NULL;
    switch (message->mode) {
    case 0: OK(MPI_Issend(base, count, type, to, tag, comm, request)); return;
    case 1:
        if (!fits) break;
        buffered += message->length + MPI_BSEND_OVERHEAD;
        OK(MPI_Ibsend(base, count, type, to, tag, comm, request));
        return;
    case 2: if (is_posted) { OK(MPI_Send(base, count, type, to, tag, comm)); return; } break;
    case 3: if (is_posted) { OK(MPI_Ssend(base, count, type, to, tag, comm)); return; } break;
    case 4: if (is_posted) { OK(MPI_Rsend(base, count, type, to, tag, comm)); return; } break;
    default: break;
    }
    OK(MPI_Isend(base, count, type, to, tag, comm, request));
}

static void start_receive(const struct message *message, struct place *place, MPI_Request *request)
{
    OK(MPI_Irecv(place->base, place->count, place->type, source_of(message), tag_of(message),
                 comms[message->comm], request));
}

/* Receives one of those that have been sent, by one of the ways there are. */
static void receive_sent(const struct message *message, struct place *place, MPI_Status *status)
{
    MPI_Comm comm = comms[message->comm];
    MPI_Message matched;
    MPI_Request request;
    int source = source_of(message), tag = tag_of(message), flag = 0;
    void *base = place->base;
    switch (below(&own, 4)) {
    case 0: OK(MPI_Recv(base, place->count, place->type, source, tag, comm, status)); break;
    case 1:
        OK(MPI_Probe(source, tag, comm, status));
        source = status->MPI_SOURCE, tag = status->MPI_TAG;
        OK(MPI_Recv(base, place->count, place->type, source, tag, comm, status));
        break;
    case 2:
        OK(MPI_Mprobe(source, tag, comm, &matched, status));
        OK(MPI_Mrecv(base, place->count, place->type, &matched, status));
        break;
    default:
        while (!flag) OK(MPI_Improbe(source, tag, comm, &flag, &matched, status));
        OK(MPI_Imrecv(base, place->count, place->type, &matched, &request));
        OK(MPI_Wait(&request, status));
    }
}

static void wait_for(int count)
{
    static int indices[2 * MESSAGES_MAX];
    static MPI_Status some[2 * MESSAGES_MAX];
    int index, ended = 0;
    switch (below(&own, 5)) {
    case 0: OK(MPI_Waitall(count, requests, statuses)); break;
    case 1:
        while (!ended) OK(MPI_Testall(count, requests, &ended, statuses));
        break;
    case 2:
        for (;;) {
            OK(MPI_Waitany(count, requests, &index, some));
            if (index == MPI_UNDEFINED) break;
            statuses[index] = some[0];
        }
        break;
    case 3:
        for (;;) {
            OK(MPI_Waitsome(count, requests, &ended, indices, some));
            if (ended == MPI_UNDEFINED) break;
            for (int i = 0; i < ended; i++) statuses[indices[i]] = some[i];
        }
        break;
    default:
        for (int i = count - 1; i >= 0; i--) OK(MPI_Wait(&requests[i], &statuses[i]));
    }
}

/* The message that a receive from any source has got: the next one of its source. */
static const struct message *next_of(int source, int before)
{
    for (int i = 0; i < received; i++) {
        const struct message *message = &messages[receives[i]];
        if (message->comm == ANY_SOURCE && message->source == source && before-- == 0) return message;
    }
    return NULL;
}

/* Each receive has got the message whose turn it was. */
static void check_received(void)
{
    int *before = check_alloc((size_t)check_size * sizeof *before);
    memset(before, 0, (size_t)check_size * sizeof *before);
    for (int i = 0; i < received; i++) {
        const struct message *message = &messages[receives[i]];
        int source = statuses[i].MPI_SOURCE;
        if (message->comm == ANY_SOURCE && source >= 0 && source < check_size)
            message = next_of(source, before[source]++);
        CHECK(message, "round %d: one more from %d than it sent", round_number, source);
        if (!message) break;
        CHECK_STATUS(statuses[i], message->source, message->tag, message->length);
        check_place(&places[i], message);
    }
    free(before);
}

static void draw_messages(void)
{
    int count = 1 + below(&shared, MESSAGES_MAX), tags = 1 + below(&shared, 3), bytes = 0;
    int same = below(&shared, 4) ? 0 : random_length();
    received = sent = 0;
    for (int i = 0; i < count; i++) {
        struct message *message = &messages[i];
        message->source = below(&shared, check_size), message->dest = below(&shared, check_size);
        message->comm = below(&shared, COMMS), message->tag = below(&shared, tags);
        message->length = same ? same : random_length();
        if (bytes + message->length > ROUND_BYTES_MAX) message->length = 8;
        bytes += message->length;
        message->mode = below(&shared, 8), message->name = (uint32_t)below(&shared, 1 << 30);
        if (message->dest == check_rank) receives[received++] = i;
        if (message->source == check_rank) sends[sent++] = i;
    }
}

static void lay_out_all(void)
{
    int longest = 0;
    for (int i = 0; i < received; i++) {
        const struct message *message = &messages[receives[i]];
        if (message->comm == ANY_SOURCE && message->length > longest) longest = message->length;
    }
    for (int i = 0; i < received; i++) {
        const struct message *message = &messages[receives[i]];
        lay_out(&places[i], message->comm == ANY_SOURCE ? longest : message->length);
    }
    for (int i = 0; i < sent; i++) {
        lay_out(&places[received + i], messages[sends[i]].length);
        fill_place(&places[received + i], messages[sends[i]].name);
    }
}

static void go_persistent(void)
{
    int all = received + sent;
    for (int i = 0; i < all; i++) {
        const struct message *message = &messages[i < received ? receives[i] : sends[i - received]];
        const struct place *place = &places[i];
        MPI_Comm comm = comms[message->comm];
        void *base = place->base;
        int source = source_of(message), tag = i < received ? tag_of(message) : message->tag;
        if (i < received) OK(MPI_Recv_init(base, place->count, place->type, source, tag, comm, &requests[i]));
        else OK(MPI_Send_init(base, place->count, place->type, message->dest, tag, comm, &requests[i]));
    }
    OK(MPI_Startall(all, requests));
    OK(MPI_Waitall(all, requests, statuses));
    for (int i = 0; i < all; i++) OK(MPI_Request_free(&requests[i]));
}

static void receive_next(int at)
{
    start_receive(&messages[receives[at]], &places[at], &requests[at]);
}

static void send_next(int at, int is_posted)
{
    start_send(&messages[sends[at]], &places[received + at], &requests[received + at], is_posted);
}

static void go(int way)
{
    static MPI_Status probed[MESSAGES_MAX];
    int r = 0, s = 0;
    buffered = 0;
    if (way == POSTED) {
        while (r < received) receive_next(r++);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    while (s < sent || (way == MIXED && r < received)) {
        if (way == MIXED && r < received && (s == sent || below(&own, 2))) receive_next(r++);
        else send_next(s, way == POSTED), s++;
    }
    for (; way == PROBED && r < received; r++) {
        receive_sent(&messages[receives[r]], &places[r], &probed[r]);
        requests[r] = MPI_REQUEST_NULL;
    }
    wait_for(received + sent);
    if (way == PROBED) memcpy(statuses, probed, (size_t)received * sizeof *probed);
}

static void one_round(void)
{
    draw_messages();
    lay_out_all();
    int way = below(&shared, WAYS);
    if (way == PERSISTENT) go_persistent();
    else go(way);
    check_received();
    for (int i = 0; i < received + sent; i++) give_back(&places[i]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 7;
    int rounds = argc > 2 ? atoi(argv[2]) : 12, attached;
    void *memory = check_alloc(ATTACHED);
    OK(MPI_Buffer_attach(memory, ATTACHED));
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    shared = seed, own = seed * 1000003 + (uint64_t)check_rank;
    for (round_number = 0; round_number < rounds && check_errors == 0; round_number++) one_round();
    for (int i = 0; i < COMMS; i++) OK(MPI_Comm_free(&comms[i]));
    OK(MPI_Buffer_detach(&memory, &attached));
    free(memory);
    return check_end();
}
