"""`make bench`: what mcpb costs, measured on this machine and printed as tables."""
