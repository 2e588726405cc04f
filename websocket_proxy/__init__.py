"""WebSocket proxy: browser extensions and MCP clients of one user meet over WebSockets.

The rules are sans-IO: `protocol`, `limits`, `dialects`, `handshakes`, `extensions`, `clients`,
`user_directory` and `claims`. docs/PROXY_PROTOCOL.md describes the messages.
"""

from native_host import __version__ as __version__
