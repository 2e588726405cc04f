"""What MCP clients talk to: it finds the browsers, knows which tab offers which tool, and routes calls there.

Imports go one way: `cli → app → frontends → server → hub`, and `app → links → hub`. The hub holds state and
rules and does no I/O; `links` reach the native hosts, `frontends` and `server` speak MCP.
"""

from native_host import __version__ as __version__
