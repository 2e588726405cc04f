"""Data: where each browser looks for native host manifests, and what is in ours."""
