"""The wire towards browsers and clients: messages, frames, and what is wrong with them."""
