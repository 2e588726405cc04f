"""What is wrong with an installation, as far as files and processes tell: for `mcpb doctor`, `mcpb status`.

report puts it together, in the order in which a browser looks; each of the others looks at one thing.
"""
