"""Registering the native host with browsers: a plan is made, shown, and carried out as shown.

browsers (where), wrapper (what the browser starts), ownership and plan (what is written or removed) are pure;
disk looks and writes; examination says what is wrong; commands is the command line.
"""
