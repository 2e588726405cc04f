"""How MCP clients reach the bridge."""
