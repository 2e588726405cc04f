/* A bare copier, in the place of a bridge or a native host: what no program on this route can be faster than.
 *
 *     copier FROM_A TO_A FROM_B TO_B
 *
 * Four descriptors. What comes from A goes to B, and what comes from B goes to A, until either ends.
 */

#include "messages.h"

#include <poll.h>
#include <signal.h>

int main(int argc, char **argv) {
    if (argc != 5) die("usage: copier FROM_A TO_A FROM_B TO_B");
    signal(SIGPIPE, SIG_IGN);
    char *buffer = malloc(READ_BYTES);
    if (buffer == NULL) die("no memory");
    struct pollfd from[] = {{.fd = atoi(argv[1]), .events = POLLIN}, {.fd = atoi(argv[3]), .events = POLLIN}};
    int to[] = {atoi(argv[4]), atoi(argv[2])};
    while (poll(from, 2, -1) > 0) {
        for (int side = 0; side < 2; side++) {
            if (from[side].revents == 0) continue;
            ssize_t got = read(from[side].fd, buffer, READ_BYTES);
            if (got <= 0) return 0;
            write_all(to[side], buffer, got);
        }
    }
    return 0;
}
