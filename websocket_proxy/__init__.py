"""WebSocket proxy: browser extensions and MCP clients on different machines meet at it.

It authenticates both, maps request ids and forwards messages, whose payloads it does not decode.
`tests/architecture/test_imports.py` has the table of allowed imports.
"""

from native_host import __version__ as __version__
