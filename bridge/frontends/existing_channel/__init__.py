"""Protocol of Claude in Chrome's socket, served by mcpb for clients of that product."""
