/* Messages on a descriptor: lines, or bodies behind a 4-byte length in the machine's byte order. */

#ifndef MESSAGES_H
#define MESSAGES_H

#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES (1 << 20)
/* So much at either end of a message is looked at for what it says of itself. */
#define EDGE_BYTES 1024

struct reader {
    int fd;
    bool is_framed;
    char *data;
    size_t start, end, capacity;
};

static inline void die(const char *text) {
    fprintf(stderr, "%s\n", text);
    exit(1);
}

static inline bool is_framed(const char *framing) {
    if (strcmp(framing, "frames") && strcmp(framing, "lines")) die("the framing is 'lines' or 'frames'");
    return framing[0] == 'f';
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

/* A whole message that has been read already, or NULL. */
static inline char *held_message(struct reader *in, size_t *length, size_t *searched) {
    size_t held = in->end - in->start;
    char *begin = in->data + in->start;
    if (in->is_framed) {
        uint32_t size;
        if (held < sizeof size) return NULL;
        memcpy(&size, begin, sizeof size);
        if (held < sizeof size + size) return NULL;
        *length = size;
        in->start += sizeof size + size;
        return begin + sizeof size;
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

/* The JSON text of a message's id, or NULL; its length goes to `length_of_id`. */
static inline char *id_of(const char *message, size_t length, size_t *length_of_id) {
    char *id = at_edges(message, length, "\"id\":");
    if (id == NULL) return NULL;
    id += strlen("\"id\":");
    while (*id == ' ') id++;
    *length_of_id = strcspn(id, ",}");
    return id;
}

#endif
