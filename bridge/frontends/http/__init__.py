"""MCP over HTTP: `mcpb serve`, beside stdio, on the same hub."""
