"""Bridge: finds browsers and their tools, and routes the calls of MCP clients to them.

The hub holds state and rules and does no I/O; `links` reach the native hosts; `frontends` and `mcp_session`
speak MCP. `tests/architecture/test_imports.py` has the table of allowed imports.
"""

from native_host import __version__ as __version__
