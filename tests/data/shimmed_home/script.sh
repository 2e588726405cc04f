#!/bin/sh
# Written by `mcpb install-native-host --shim` from {"version":"0.1.0","interpreter":"/opt/mcpb/venv/bin/python","module":"/opt/mcpb/native_host/shim.py","home":"{home}/.mcpb","program":"{home}/.claude/chrome/chrome-native-host"}
if [ -x /opt/mcpb/venv/bin/python ] && [ -f /opt/mcpb/native_host/shim.py ]; then
    exec /opt/mcpb/venv/bin/python -I /opt/mcpb/native_host/shim.py --home {home}/.mcpb {home}/.claude/chrome/chrome-native-host "$@"
fi
# mcpb is gone: the browser gets what it had before.
exec {home}/.claude/chrome/chrome-native-host "$@"
