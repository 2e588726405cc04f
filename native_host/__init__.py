"""The process that a browser starts: it passes frames between one browser and any number of bridges.

It knows frames, ids and which tab and frame an announcement is about, and never looks into a payload.
Bottom to top: `framing`, `wire`, `envelope`, `correlation`, `topics`, `replay`, `chunks`, `switchboard`,
`backlog`, `newest` (all without I/O), then `endpoint`, `inlet`, `outlet` and `relay`, which hold the sockets
and pipes.
"""

__version__ = "0.2.0"
