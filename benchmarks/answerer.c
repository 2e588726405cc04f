/* The tools' end: says its opening, then gives each request the answer that was prepared for it.
 *
 *     answerer lines|frames|websocket FROM TO RULES [MEMBER]
 *
 * FROM and TO are descriptors. RULES is a file of byte strings, each behind its length (uint32): the opening, which
 * is written as it is; then pairs of a text and an answer. The first text that stands near the beginning of a
 * request decides; in its answer, a zero byte is where the request's id belongs: what stands behind MEMBER, `"id":`
 * where nothing else is said. What no text is for is ignored. The pieces of a body that was too long for a browser are
 * put together first (docs/PROTOCOL.md, "Chunks").
 */

#include "messages.h"

#include <signal.h>

struct bytes {
    char *data;
    uint32_t length;
};

struct rule {
    struct bytes text, answer;
};

static struct rule *rules;
static size_t rule_count;
static enum framing framing;
static const char *member = "\"id\":";
static int out;

static bool read_bytes(FILE *file, struct bytes *bytes) {
    if (fread(&bytes->length, sizeof bytes->length, 1, file) != 1) return false;
    bytes->data = malloc(bytes->length + 1);
    if (bytes->data == NULL || fread(bytes->data, 1, bytes->length, file) != bytes->length) die("rules are cut off");
    return true;
}

static struct bytes read_rules(const char *path) {
    FILE *file = fopen(path, "rb");
    struct bytes opening;
    if (file == NULL || !read_bytes(file, &opening)) die("no rules");
    struct rule rule;
    while (read_bytes(file, &rule.text) && read_bytes(file, &rule.answer)) {
        rules = realloc(rules, (rule_count + 1) * sizeof *rules);
        if (rules == NULL) die("no memory");
        rules[rule_count++] = rule;
    }
    fclose(file);
    return opening;
}

#define HEADER_BYTES 16

/* Returns where it ends. A WebSocket's is that of a client, whose mask may be zero (RFC 6455, 5.2 and 5.3). */
static char *put_header(char *to, uint32_t size) {
    if (framing == FRAMES) {
        memcpy(to, &size, sizeof size);
        return to + sizeof size;
    }
    if (framing == LINES) return to;
    *to++ = (char)0x81; /* a text, whole */
    int of_length = size < 126 ? 0 : size < 65536 ? 2 : 8;
    *to++ = (char)(0x80 | (of_length == 0 ? size : of_length == 2 ? 126 : 127));
    for (int bytes = of_length; bytes > 0; bytes--) *to++ = (uint64_t)size >> 8 * (bytes - 1);
    memset(to, 0, 4);
    return to + 4;
}

/* One write for a short answer, so that it arrives whole. */
static void answer(const struct bytes *prepared, const char *id, size_t of_id) {
    static char *message;
    static size_t capacity;
    size_t needed = prepared->length + of_id + HEADER_BYTES;
    if (needed > capacity) {
        message = realloc(message, capacity = 2 * needed);
        if (message == NULL) die("no memory");
    }
    const char *mark = memchr(prepared->data, 0, prepared->length);
    size_t before = mark ? (size_t)(mark - prepared->data) : prepared->length;
    size_t after = mark ? prepared->length - before - 1 : 0;
    uint32_t size = before + (mark ? of_id : 0) + after;
    char *at = put_header(message, size);
    memcpy(at, prepared->data, before);
    at += before;
    if (mark) {
        memcpy(at, id, of_id);
        memcpy(at + of_id, mark + 1, after);
        at += of_id + after;
    }
    if (framing == LINES) *at++ = '\n';
    write_all(out, message, at - message);
}

static int six_bits(char digit) {
    if (digit >= 'A' && digit <= 'Z') return digit - 'A';
    if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
    if (digit >= '0' && digit <= '9') return digit - '0' + 52;
    return digit == '+' ? 62 : 63;
}

/* Decodes base64 up to the closing quote; returns where the output ends. */
static char *decode(const char *digits, char *to) {
    static unsigned char values[256];
    if (values['B'] == 0)
        for (int digit = 0; digit < 256; digit++) values[digit] = six_bits(digit);
    const unsigned char *at = (const unsigned char *)digits;
    for (; at[0] != '"'; at += 4) {
        uint32_t bits = values[at[0]] << 18 | values[at[1]] << 12 | values[at[2]] << 6 | values[at[3]];
        *to++ = bits >> 16;
        if (at[2] != '=') *to++ = bits >> 8;
        if (at[3] != '=') *to++ = bits;
    }
    return to;
}

/* Adds a piece; the whole body where it was the last one, else NULL. */
static char *join(const char *piece, size_t length, size_t *joined_length) {
    static char *body;
    static size_t gathered;
    const char *digits = at_edges(piece, length, "\"data\":\"");
    if (digits == NULL) die("a piece without data");
    body = realloc(body, gathered + length);
    if (body == NULL) die("no memory");
    gathered = decode(digits + strlen("\"data\":\""), body + gathered) - body;
    if (at_edges(piece, length, "\"last\":true") == NULL) return NULL;
    *joined_length = gathered;
    gathered = 0;
    return body;
}

static void hear(const char *message, size_t length) {
    size_t edge = length < EDGE_BYTES ? length : EDGE_BYTES, of_id = 0;
    if (memmem(message, edge, "\"host/chunk\"", strlen("\"host/chunk\""))) {
        size_t joined_length;
        char *joined = join(message, length, &joined_length);
        if (joined != NULL) hear(joined, joined_length);
        return;
    }
    for (struct rule *rule = rules; rule < rules + rule_count; rule++) {
        if (memmem(message, edge, rule->text.data, rule->text.length) == NULL) continue;
        const char *id = id_of(member, message, length, &of_id);
        answer(&rule->answer, id, of_id);
        return;
    }
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 6) die("usage: answerer lines|frames|websocket FROM TO RULES [MEMBER]");
    signal(SIGPIPE, SIG_IGN);
    framing = framing_of(argv[1]);
    if (argc == 6) member = argv[5];
    struct reader in = {.fd = atoi(argv[2]), .framing = framing};
    out = atoi(argv[3]);
    struct bytes opening = read_rules(argv[4]);
    write_all(out, opening.data, opening.length);
    bool is_at_end = false;
    char *message;
    size_t length;
    while ((message = next_message(&in, &length, true, &is_at_end)) != NULL) hear(message, length);
    return 0;
}
