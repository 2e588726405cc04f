"""Native host: the process that a browser starts, and the library that all packages share.

It passes frames between one browser and any number of bridges, and never decodes a payload. The library is
`protocol`, `system` and `ipc`; the process is `relay`, `existing_channel` and `host`.
"""

__version__ = "0.2.0"
