#!/bin/sh
# Put the mcpb of this clone on this machine, into an environment of its own; run again, it upgrades.
# install/uninstall.sh undoes it.
#
#     install/install.sh [--yes] [--prefix DIR]
#
# Everything is below one folder (~/.local/share/mcpb, or --prefix DIR), and reached through two links in
# ~/.local/bin:
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
        cat <<EOF
$usage

Installs mcpb from this clone, or upgrades it, registers it with your browsers and copies the extension.

  --yes, -y     register with browsers without asking; otherwise the plan is shown first
  --prefix DIR  a new or an empty folder to install into, in place of
                $prefix
  --help, -h    show this

The commands are $bin/mcpb and mcpb-bridge there. PYTHON in the environment names
the Python to use. To undo it all: install/uninstall.sh
EOF
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

here=$(dirname "$0")
if ! [ -f "$here/install.sh" ] || ! grep -q '^name = "mcpb"' "$here/../pyproject.toml" 2>/dev/null; then
    fail "install.sh installs the clone of mcpb that it lies in, and there is none around it." \
        "Clone mcpb, then run install/install.sh there. Nothing was changed."
fi
clone=$(cd "$here/.." && pwd)

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
if [ ! -e "$prefix" ] && [ "$(readlink "$bin/mcpb" || true)" = "$current/bin/mcpb" ]; then
    # Somebody moved the folder away, and with it the record: what has nothing else in it is taken to be ours.
    made="$HOME/.local
$data
$bin
"
fi

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

before=$(readlink "$current" || true)

new=$(mktemp -d "$prefix/env-XXXXXX")
say "Installing $clone into $prefix. This takes half a minute ..."
"$python" -I -m venv "$new"
"$new/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-cache-dir "$clone" ||
    fail "pip could not install $clone. Nothing was changed."
"$new/bin/python" -I -m bridge --version >/dev/null || fail "$clone does not start. Nothing was changed."

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
say "Installed: $("$mcpb" --version)" ""

# ── What remains to be done, the last thing last ────────────────────────────────────────────────────────────

ended=0
if [ -z "$yes" ] && ! { [ -t 0 ] && [ -t 1 ]; }; then
    say "Nobody is there to ask: the registration with browsers is as it was."
else
    "$mcpb" install-native-host $yes || ended=$?
    [ "$ended" -eq 0 ] || say "mcpb is installed. Its registration with browsers is as it was."
fi
say ""
"$mcpb" extension
say "" "Give it to an MCP client, for instance: claude mcp add browser -- $mcpb bridge"
case :$PATH: in
*:"$bin":*) ;;
*) say "" "$bin is not on your PATH. Add this to your shell's profile: export PATH=\"$bin:\$PATH\"" ;;
esac
# A person has read what was refused; a script is told, unless there is merely no browser yet (3).
[ -z "$yes" ] || [ "$ended" -eq 3 ] || exit "$ended"
