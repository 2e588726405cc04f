#!/bin/sh
# Take away what install/install.sh put on this machine, and nothing else.
#
#     install/uninstall.sh [--purge] [--prefix DIR]
#
# It unregisters the native host, then removes the environment, the links to it and the folders made for them.
# Settings, logs and the extension's copy (~/.mcpb) stay, unless --purge says that they go as well. It may be run
# again after it was interrupted.

set -eu

data=${XDG_DATA_HOME:-$HOME/.local/share}
prefix=$data/mcpb
bin=$HOME/.local/bin
purge=

say() { printf '%s\n' "$@" >&2; }

fail() {
    say "$@"
    exit 1
}

usage="usage: uninstall.sh [--purge] [--prefix DIR]"

while [ $# -gt 0 ]; do
    case $1 in
    --purge) purge=--purge ;;
    --prefix)
        [ -n "${2:-}" ] || fail "--prefix needs a folder. $usage"
        prefix=$2
        shift
        ;;
    --prefix=?*) prefix=${1#*=} ;;
    --help | -h)
        printf '%s\n' "$usage" "Default folder: $prefix"
        exit
        ;;
    *) fail "unknown: $1. $usage" ;;
    esac
    shift
done
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
record=$prefix/install.record
current=$prefix/venv
python=$current/bin/python

# ── The registration ────────────────────────────────────────────────────────────────────────────────────────

# Which Python browsers start; nothing when none is registered.
registered() { "$python" -I -c 'from install.repair import registered_interpreter; print(registered_interpreter())'; }

if "$python" -I -m bridge --version >/dev/null 2>&1; then
    by=$(registered)
    if [ -n "$by" ] && [ "$by" != "$python" ] && [ -x "$by" ]; then
        say "Browsers start another installation of mcpb ($by): its registration stays."
    else
        "$python" -I -m bridge uninstall-native-host --yes $purge ||
            fail "Nothing was removed. Mend what it says, then run this again."
    fi
elif [ -e "$prefix" ]; then
    say "The mcpb in $prefix does not start, so it cannot unregister itself. If browsers still know it:" \
        "run install/install.sh, then install/uninstall.sh again."
fi

# ── Links, environments, folders ────────────────────────────────────────────────────────────────────────────

for name in mcpb mcpb-bridge; do
    if [ "$(readlink "$bin/$name" || true)" = "$current/bin/$name" ]; then
        rm "$bin/$name"
        say "removed $bin/$name"
    fi
done
if [ ! -f "$record" ] && [ ! -L "$current" ]; then
    fail "install.sh has put nothing into $prefix. Another folder? $usage"
fi

made=$(cat "$record" 2>/dev/null || true)
for environment in "$prefix"/env-??????; do
    rm -rf "$environment"
done
rm -f "$current" "$prefix/venv.new" "$record"
# Those that install.sh made, innermost first, as far as nothing else is in them.
printf '%s\n' "$made" | sed '1!G;h;$!d' | while IFS= read -r folder; do
    rmdir "$folder" 2>/dev/null || true
done
say "removed $prefix"
