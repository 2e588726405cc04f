"""How the hub reaches tools: so far through native hosts."""
