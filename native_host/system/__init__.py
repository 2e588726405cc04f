"""Operating system: processes, sockets, private files, the home directory."""
