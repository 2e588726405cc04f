/* HTTP/1.1 as a client reads it: whole responses, and what comes piece by piece in one that does not end. Both in
 * place: what was read is changed only when all of it is there. */

#ifndef RESPONSES_H
#define RESPONSES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool ends_event(const char *data, size_t length) {
    return (length >= 2 && !memcmp(data + length - 2, "\n\n", 2)) ||
           (length >= 4 && !memcmp(data + length - 4, "\r\n\r\n", 4));
}

/* Walks over chunks (RFC 9112, 7.1) up to the last one of a body or, in a stream of events, to one that ends an event,
 * and joins them where they begin if `joins`. Returns how much of the input they take; 0: not all of it is here. */
static inline size_t walk_chunks(char *begin, size_t held, bool is_stream, bool joins, size_t *length) {
    size_t at = 0;
    *length = 0;
    while (true) {
        char *line_end = memmem(begin + at, held - at, "\r\n", 2);
        if (line_end == NULL) return 0;
        size_t size = strtoul(begin + at, NULL, 16), data = line_end + 2 - begin;
        at = data + size + 2;
        if (at > held) return 0;
        bool is_last = is_stream ? ends_event(begin + data, size) : size == 0;
        if (joins) memmove(begin + *length, begin + data, size);
        *length += size;
        if (is_last) return at;
    }
}

/* As `walk_chunks`; then the body begins at `begin`. */
static inline size_t join_chunks(char *begin, size_t held, bool is_stream, size_t *length) {
    if (walk_chunks(begin, held, is_stream, false, length) == 0) return 0;
    return walk_chunks(begin, held, is_stream, true, length);
}

/* The value of a header, or NULL; `name` is lower case, between the line end before it and the colon behind. */
static inline char *header_value(char *head, char *end, const char *name) {
    char kept = *end;
    *end = 0;
    char *found = strcasestr(head, name);
    *end = kept;
    return found ? found + strlen(name) : NULL;
}

/* The body of a whole response, or NULL; `taken` is how much of the input it takes. Whatever is no success ends all. */
static inline char *response_body(char *begin, size_t held, size_t *length, size_t *taken) {
    char *end = memmem(begin, held, "\r\n\r\n", 4);
    if (end == NULL) return NULL;
    if (begin[9] != '2') {
        fprintf(stderr, "refused: %.*s\n", (int)(held < 1024 ? held : 1024), begin);
        exit(1);
    }
    char *body = end + 4, *said = header_value(begin, end, "\r\ncontent-length:");
    size_t head = body - begin;
    if (said != NULL) {
        *length = strtoul(said, NULL, 10);
        *taken = head + *length;
        return *taken <= held ? body : NULL;
    }
    size_t of_chunks = join_chunks(body, held - head, false, length);
    *taken = head + of_chunks;
    return of_chunks > 0 ? body : NULL;
}

#endif
