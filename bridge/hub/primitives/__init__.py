"""MCP primitives besides tools: resources and prompts of pages, and requests of pages to clients."""
