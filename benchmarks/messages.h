/* Messages on a descriptor: lines, bodies behind a 4-byte length in the machine's byte order, what a server says on a
 * WebSocket that has been opened, responses of HTTP, or server-sent events of a response whose head has been read. */

#ifndef MESSAGES_H
#define MESSAGES_H

#define _GNU_SOURCE
#include "responses.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES (1 << 20)
/* So much at either end of a message is looked at for what it says of itself. */
#define EDGE_BYTES 1024

enum framing { LINES, FRAMES, WEBSOCKET, HTTP, EVENTS };

struct reader {
    int fd;
    enum framing framing;
    char *data;
    size_t start, end, capacity;
};

static inline void die(const char *text) {
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static inline enum framing framing_of(const char *name) {
    if (!strcmp(name, "lines")) return LINES;
    if (!strcmp(name, "frames")) return FRAMES;
    if (!strcmp(name, "websocket")) return WEBSOCKET;
    if (!strcmp(name, "http")) return HTTP;
    if (!strcmp(name, "events")) return EVENTS;
    die("the framing is 'lines', 'frames', 'websocket', 'http' or 'events'");
    return LINES;
}

static inline void write_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t written = write(fd, data, length);
        if (written < 0) die("the other side takes no more");
        data += written;
        length -= written;
    }
}

/* Makes room for `room` more bytes behind the end; what was handed out before is void. */
static inline void make_room(struct reader *in, size_t room) {
    if (in->start == in->end) in->start = in->end = 0; /* memory that was used last is the quickest */
    if (in->end + room <= in->capacity) return;
    size_t held = in->end - in->start;
    if (held > 0) memmove(in->data, in->data + in->start, held);
    in->start = 0;
    in->end = held;
    if (held + room <= in->capacity) return;
    in->capacity = 2 * (held + room);
    in->data = realloc(in->data, in->capacity);
    if (in->data == NULL) die("no memory");
}

/* How long the header of a frame is, and in `length` its body; 0: not all of it has been read. A WebSocket's is that
 * of a server (RFC 6455, 5.2): without a mask, its length in 7, 16 or 64 bits. */
static inline size_t header_of(enum framing framing, const unsigned char *begin, size_t held, size_t *length) {
    size_t header = framing == FRAMES ? 4 : 2;
    if (held < header) return 0;
    if (framing == FRAMES) {
        uint32_t size;
        memcpy(&size, begin, sizeof size);
        *length = size;
        return header;
    }
    *length = begin[1] & 127;
    if (*length < 126) return header;
    header += *length == 126 ? 2 : 8;
    if (held < header) return 0;
    *length = 0;
    for (size_t at = 2; at < header; at++) *length = *length << 8 | begin[at];
    return header;
}

/* A body of HTTP that has been read already, or NULL. */
static inline char *held_body(struct reader *in, size_t *length) {
    char *begin = in->data + in->start, *body = begin;
    size_t held = in->end - in->start, taken;
    if (in->framing == HTTP)
        body = response_body(begin, held, length, &taken);
    else if ((taken = join_chunks(begin, held, true, length)) == 0)
        body = NULL;
    if (body != NULL) in->start += taken;
    return body;
}

/* A whole message that has been read already, or NULL. */
static inline char *held_message(struct reader *in, size_t *length, size_t *searched) {
    size_t held = in->end - in->start;
    char *begin = in->data + in->start;
    if (in->framing == HTTP || in->framing == EVENTS) return held_body(in, length);
    if (in->framing != LINES) {
        size_t header = header_of(in->framing, (unsigned char *)begin, held, length);
        if (header == 0 || held < header + *length) return NULL;
        in->start += header + *length;
        return begin + header;
    }
    char *newline = held > *searched ? memchr(begin + *searched, '\n', held - *searched) : NULL;
    *searched = held;
    if (newline == NULL) return NULL;
    *length = newline - begin;
    in->start += *length + 1;
    return begin;
}

/* The next message, valid until the next call; NULL at the end. Waits only where `may_wait`. */
static inline char *next_message(struct reader *in, size_t *length, bool may_wait, bool *is_at_end) {
    size_t searched = 0;
    char *message;
    while ((message = held_message(in, length, &searched)) == NULL) {
        if (!may_wait) return NULL;
        make_room(in, READ_BYTES);
        ssize_t got = read(in->fd, in->data + in->end, in->capacity - in->end);
        if (got <= 0) {
            *is_at_end = true;
            return NULL;
        }
        in->end += got;
    }
    return message;
}

/* Where `needle` stands near the beginning or the end of a message, or NULL. */
static inline char *at_edges(const char *message, size_t length, const char *needle) {
    size_t edge = length < EDGE_BYTES ? length : EDGE_BYTES;
    char *found = memmem(message, edge, needle, strlen(needle));
    return found ? found : memmem(message + length - edge, edge, needle, strlen(needle));
}

/* The JSON text of a message's id, or NULL; its length goes to `length_of_id`. `member` is where it stands. */
static inline char *id_of(const char *member, const char *message, size_t length, size_t *length_of_id) {
    char *id = at_edges(message, length, member);
    if (id == NULL) return NULL;
    id += strlen(member);
    while (*id == ' ') id++;
    *length_of_id = strcspn(id, ",}");
    return id;
}

#endif
