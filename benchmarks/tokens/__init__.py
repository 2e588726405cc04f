"""What an agent pays for: tokens and calls of being connected, of reading pages and of tasks."""
