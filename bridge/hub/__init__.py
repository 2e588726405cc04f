"""The hub: which tab offers which tool. Pure state and rules; only `routing` waits."""
