#!/bin/sh
# Put mcpb on this machine, into an environment of its own; run again, it upgrades. install/uninstall.sh undoes it.
#
#     install/install.sh [--yes] [--prefix DIR]
#
# From a clone it installs the clone, alone (curl ... | sh) the released mcpb. Everything is below one folder
# (~/.local/share/mcpb, or --prefix DIR), and reached through two links in ~/.local/bin:
#
#     venv -> env-XXXXXX    what is used; the commands and the registered native host name only this link
#     env-XXXXXX            the newest environment, and the one before it: processes may still run from that
#     install.record        the folders that were made for all this
#
# A new environment is built beside the old one and must work before the link is turned: whatever goes wrong
# before, the old one stays as it was.

set -eu

oldest='(3, 11)'
data=${XDG_DATA_HOME:-$HOME/.local/share}
prefix=$data/mcpb
bin=$HOME/.local/bin
yes=

say() { printf '%s\n' "$@" >&2; }

fail() {
    say "$@"
    exit 1
}

usage="usage: install.sh [--yes] [--prefix DIR]"

while [ $# -gt 0 ]; do
    case $1 in
    --yes | -y) yes=--yes ;;
    --prefix)
        [ -n "${2:-}" ] || fail "--prefix needs a folder. $usage"
        prefix=$2
        shift
        ;;
    --prefix=?*) prefix=${1#*=} ;;
    --help | -h)
        printf '%s\n' "$usage" "Default folder: $prefix; commands: $bin/mcpb and $bin/mcpb-bridge"
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

# ── Python ──────────────────────────────────────────────────────────────────────────────────────────────────

is_new_enough() { "$1" -c "import sys; sys.exit(sys.version_info < $oldest)" 2>/dev/null; }

find_python() {
    for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

python=$(find_python) || fail "mcpb needs Python 3.11 or newer: install one, or set PYTHON to it."
# Debian splits ensurepip off; an environment made without it has no pip.
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "The venv module of $python is missing. On Debian and Ubuntu: sudo apt-get install python3-venv"

# ── Folders: those that were not there are written down, for uninstall.sh ───────────────────────────────────

if [ -e "$prefix" ] && [ ! -f "$record" ] && [ -n "$(ls -A "$prefix")" ]; then
    fail "$prefix has other things in it: name an empty or a new folder with --prefix."
fi
if [ -e "$current" ] && [ ! -L "$current" ]; then
    fail "$current is not a link that install.sh made: move it away."
fi

made=
new=

# Outermost first, one on each line.
make_folder() {
    [ -d "$1" ] && return
    make_folder "$(dirname "$1")"
    mkdir "$1"
    made="$made$1
"
}

# After a failure: what this run began. What was there before is as it was.
clean_up() {
    [ -z "$new" ] || [ "$(readlink "$current")" = "$(basename "$new")" ] || rm -rf "$new"
    [ -L "$current" ] && return
    rm -f "$record"
    printf '%s' "$made" | sed '1!G;h;$!d' | while IFS= read -r folder; do
        rmdir "$folder" 2>/dev/null || true
    done
}

trap clean_up EXIT
trap 'exit 130' INT TERM HUP
make_folder "$prefix"
make_folder "$bin"
printf '%s' "$made" >>"$record"

# ── The environment ─────────────────────────────────────────────────────────────────────────────────────────

here=$(dirname "$0")
package=mcpb
if [ -f "$here/install.sh" ] && grep -q '^name = "mcpb"' "$here/../pyproject.toml" 2>/dev/null; then
    package=$(cd "$here/.." && pwd)
fi
before=$(readlink "$current" || true)

new=$(mktemp -d "$prefix/env-XXXXXX")
say "Installing $package into $prefix ..."
"$python" -I -m venv "$new"
"$new/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-cache-dir "$package" ||
    fail "pip could not install $package. Nothing was changed."
"$new/bin/python" -I -m bridge --version >/dev/null || fail "$package does not start. Nothing was changed."

# The commands name the link, which outlives this environment; then the link is turned, in one step.
"$new/bin/python" -I - "$new" "$current" <<'EOF'
import os, pathlib, sys

new, current = map(pathlib.Path, sys.argv[1:])
for name in ("mcpb", "mcpb-bridge", "mcpb-native-host"):
    command = new / "bin" / name
    command.write_text(command.read_text().replace(f"{new}/", f"{current}/"))
draft = current.with_name("venv.new")
draft.unlink(missing_ok=True)
draft.symlink_to(new.name)
os.replace(draft, current)
EOF

for environment in "$prefix"/env-??????; do
    case ${environment##*/} in
    "${new##*/}" | "$before") ;;
    *) rm -rf "$environment" ;;
    esac
done

# ── The commands ────────────────────────────────────────────────────────────────────────────────────────────

# link NAME: whether the command is reached through our link now.
link() {
    if [ "$(readlink "$bin/$1" || true)" = "$current/bin/$1" ]; then
        return 0
    fi
    if [ -e "$bin/$1" ] || [ -L "$bin/$1" ]; then
        say "$bin/$1 is another program and stays as it is." \
            "To have this one there: mv '$bin/$1' '$bin/$1.other', then run this again."
        return 1
    fi
    ln -s "$current/bin/$1" "$bin/$1"
}

# What a terminal starts with this name is ours.
is_found() { [ "$(command -v "$1" || true)" = "$bin/$1" ]; }

mcpb=$current/bin/mcpb
for name in mcpb-bridge mcpb; do
    if link "$name" && is_found "$name"; then
        mcpb=$name
    fi
done
case :$PATH: in
*:"$bin":*) ;;
*) say "$bin is not on your PATH. Add this to your shell's profile: export PATH=\"$bin:\$PATH\"" ;;
esac

say "Installed: $("$current/bin/mcpb" --version)" ""
"$current/bin/mcpb" extension
echo
if [ -z "$yes" ] && ! { [ -t 0 ] && [ -t 1 ]; }; then
    say "Nobody is there to ask. What is left: $mcpb install-native-host"
    exit 0
fi
"$current/bin/mcpb" install-native-host $yes ||
    fail "" "mcpb is installed, but not registered with a browser. When you are ready: $mcpb install-native-host"
say "" "Give it to an MCP client, for instance: claude mcp add browser -- $mcpb bridge"
