"""copier.c in Python: reads and writes, does nothing else. No program in Python can be faster."""

from __future__ import annotations

import os
import select
import sys

READ_BYTES = 1 << 20


def main(from_a: int, to_a: int, from_b: int, to_b: int) -> None:
    """Copy both ways between descriptors until either side ends."""
    to = {from_a: to_b, from_b: to_a}
    poll = select.poll()
    for descriptor in to:
        poll.register(descriptor, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            data = os.read(descriptor, READ_BYTES)
            if not data:
                return
            write_all(to[descriptor], data)


def write_all(descriptor: int, data: bytes) -> None:
    """As much as is there."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
