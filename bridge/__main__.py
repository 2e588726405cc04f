"""`python -m bridge` is the `mcpb` command."""

from bridge.cli.group import main

main()
