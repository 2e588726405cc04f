"""State and permissions of one session's calls."""
