"""The status page: what a person sees at `/` while an agent drives their browser."""
