"""Checks of an installation by files and processes, for `mcpb doctor` and `mcpb status`.

`check_report` combines them in the order in which a browser reads; each other module checks one thing.
"""
