"""By which name clients of another product's socket tell this machine's mcpb from others; no host name."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

from native_host.ipc.endpoint import EndpointError
from native_host.system.private_files import open_regular

FILE = "device-id"
_MAX_BYTES = 64


def device_id(state: Path) -> str:
    """The same as long as the state directory is there: made when it is first asked for.

    Raises:
        EndpointError: it cannot be read or written.
    """
    path = state / FILE
    try:
        with suppress(FileExistsError), open(path, "xb", opener=open_regular) as file:
            file.write(str(uuid.uuid4()).encode())
        with open(path, "rb", opener=open_regular) as file:
            return str(uuid.UUID(file.read(_MAX_BYTES).decode().strip()))
    except (OSError, ValueError) as error:
        raise EndpointError(
            f"{path} cannot be used: {error}. Remove it, and start mcpb serve again"
        ) from error
