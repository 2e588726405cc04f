"""WebSocket proxy: browser extensions and MCP clients of one user meet over WebSockets.

The rules are sans-IO: `protocol`, `limits`, `dialects`, `handshakes`, `extensions`, `clients`,
`user_directory` and `claims`. `node` is the process, `commands` its command line. docs/PROXY_PROTOCOL.md
describes the messages, docs/PROXY.md how to run it.
"""

from native_host import __version__ as __version__
