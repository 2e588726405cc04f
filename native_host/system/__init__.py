"""What the operating system reports: processes and sockets."""
