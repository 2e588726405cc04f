"""Process of a WebSocket proxy node: sockets, timers, settings, admin socket, metrics and audit log."""
