"""Native wire: messages, frames, limits and errors."""
