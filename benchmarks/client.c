/* The client's end: writes requests, waits for their answers, tells when each was written and answered.
 *
 *     client lines|frames|http|events FROM TO
 *
 * FROM and TO are descriptors. Requests of `http` and `events` are whole ones of HTTP, whose length is right for an id
 * of seven digits; those of `events` are answered on FROM, and acknowledged on TO. On stdin comes, behind its length (uint32), what has been read from FROM before; then
 * orders: count, depth and the length of a request (3 × uint32), and the request, with a zero byte where its id
 * belongs; without one, answers come in the order of the requests. At most `depth` requests are on the way at once.
 * For each call stdout gets 3 × int64: when it was written and when its answer was whole (ns), and how many bytes
 * the answer had.
 */

#include "messages.h"

#include <signal.h>
#include <time.h>

#define FIRST_ID 1000000 /* the other side counts its own requests from below */
#define PATIENCE_S 60

struct call {
    int64_t written, answered, bytes;
};

static struct reader in = {.fd = -1};
static struct reader acknowledgements = {.fd = -1, .framing = HTTP};
static int out = -1;
static long long next_id = FIRST_ID;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void read_order(void *data, size_t length) {
    if (fread(data, 1, length, stdin) != length) die("an order is cut off");
}

static void take_what_was_read(void) {
    uint32_t length;
    read_order(&length, sizeof length);
    make_room(&in, length + 1);
    read_order(in.data, length);
    in.end = length;
}

static size_t put_request(char *to, const char *request, uint32_t length, long long id) {
    char digits[24];
    const char *mark = memchr(request, 0, length);
    size_t before = mark ? (size_t)(mark - request) : length;
    size_t of_id = mark ? (size_t)sprintf(digits, "%lld", id) : 0;
    size_t after = mark ? length - before - 1 : 0;
    uint32_t size = before + of_id + after;
    char *at = to;
    if (in.framing == FRAMES) {
        memcpy(at, &size, sizeof size);
        at += sizeof size;
    }
    memcpy(at, request, before);
    memcpy(at + before, digits, of_id);
    if (after > 0) memcpy(at + before + of_id, mark + 1, after);
    at += size;
    if (in.framing == LINES) *at++ = '\n';
    return at - to;
}

/* One for each request: they are not what is waited for, and must not fill the other side's way to us. */
static void read_acknowledgements(uint32_t count) {
    bool is_at_end = false;
    size_t size;
    if (in.framing != EVENTS) return;
    while (count-- > 0)
        if (next_message(&acknowledgements, &size, true, &is_at_end) == NULL) die("a request is not acknowledged");
}

/* Which call of this order a message answers; -1: none of them. */
static long long answered(const char *message, size_t length, bool has_ids, long long in_turn, long long first) {
    if (!has_ids) return in_turn;
    size_t of_id;
    char *id = id_of("\"id\":", message, length, &of_id);
    if (id == NULL) return -1;
    long long number = strtoll(*id == '"' ? id + 1 : id, NULL, 10);
    if (number < first || number >= next_id) return -1;
    if (at_edges(message, length, "\"error\":{") || at_edges(message, length, "\"isError\":true")) {
        fprintf(stderr, "refused: %.*s\n", (int)(length < EDGE_BYTES ? length : EDGE_BYTES), message);
        exit(1);
    }
    return number - first;
}

static void obey(uint32_t count, uint32_t depth, const char *request, uint32_t length) {
    bool has_ids = memchr(request, 0, length) != NULL, is_at_end = false;
    struct call *calls = calloc(count, sizeof *calls);
    char *requests = malloc(depth * (size_t)(length + 32));
    if (calls == NULL || requests == NULL) die("no memory");
    long long first = next_id;
    uint32_t sent = 0, done = 0;
    while (done < count) {
        size_t bytes = 0;
        uint32_t from = sent, done_before = done;
        while (sent < count && sent - done < depth) {
            bytes += put_request(requests + bytes, request, length, next_id++);
            sent++;
        }
        for (int64_t written = now(); from < sent; from++) calls[from].written = written;
        write_all(out, requests, bytes);
        bool may_wait = true;
        char *message;
        size_t size;
        while (done < count && (message = next_message(&in, &size, may_wait, &is_at_end)) != NULL) {
            long long call = answered(message, size, has_ids, done, first);
            if (call < 0 || calls[call].answered) continue;
            calls[call].answered = now();
            calls[call].bytes = size;
            done++;
            may_wait = false;
        }
        if (is_at_end) die("the other side ended before it answered");
        read_acknowledgements(done - done_before);
    }
    if (fwrite(calls, sizeof *calls, count, stdout) != count || fflush(stdout)) die("cannot write the times");
    free(calls);
    free(requests);
}

static void give_up(int signal) {
    (void)signal;
    die("no answer within a minute");
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage: client lines|frames|http|events FROM TO");
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, give_up);
    in.framing = framing_of(argv[1]);
    in.fd = atoi(argv[2]);
    out = acknowledgements.fd = atoi(argv[3]);
    take_what_was_read();
    uint32_t order[3];
    while (fread(order, sizeof order, 1, stdin) == 1) {
        char *request = malloc(order[2]);
        if (request == NULL) die("no memory");
        read_order(request, order[2]);
        alarm(PATIENCE_S);
        obey(order[0], order[1], request, order[2]);
        alarm(0);
        free(request);
    }
    return 0;
}
