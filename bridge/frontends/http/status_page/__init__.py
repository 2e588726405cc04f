"""Status page (`/`): browsers, tabs, tools, clients and calls, for the user."""
