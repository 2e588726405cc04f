"""Files below `~/.mcpb/state`."""
