"""Front ends: transports through which MCP clients reach the bridge."""
