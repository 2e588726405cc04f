"""Files of the user's machine: those that clients may give to pages, and pictures among the downloads."""
