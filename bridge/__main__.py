"""`python -m bridge` is the `mcpb` command."""

from bridge.cli import main

main()
