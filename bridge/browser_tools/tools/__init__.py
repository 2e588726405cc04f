"""The browser's own tools: one module for each tool, and what only tools use."""
