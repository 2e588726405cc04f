"""Installer of the native host: makes a plan, shows it, and applies it as shown.

`plan` is pure except for `apply.py`, which reads and writes the disk; `checks` diagnoses an installation;
`cli` has the commands.
"""
