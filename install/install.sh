#!/bin/sh
# Put the mcpb of this clone on this machine, into an environment of its own; run again, it upgrades.
# install/uninstall.sh undoes it.
#
#     install/install.sh [--yes] [--prefix DIR] [--extension DIR]
#
# Everything is below one folder (~/.local/share/mcpb, or --prefix DIR), and reached through two links in
# ~/.local/bin:
#
#     venv -> env-XXXXXX    what is used; the commands and the registered native host name only this link
#     env-XXXXXX            the newest environment, and the one before it: processes may still run from that
#     install.record        the environments, and the folders that were made for all this: nothing else is removed
#
# A new environment is built beside the old one and must work before the link is turned: whatever goes wrong
# before, the old one stays as it was.

set -eu

oldest='(3, 11)'

say() { printf '%s\n' "$@" >&2; }

fail() {
    say "$@"
    exit 1
}

# quoted PATH: as one word of a command that is to be pasted.
quoted() {
    case $1 in
    *[!A-Za-z0-9_./-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
    *) printf '%s' "$1" ;;
    esac
}

clone_scripts=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
if ! [ -f "$clone_scripts/progress.sh" ] || ! grep -q '^name = "mcpb"' "$clone_scripts/../pyproject.toml" 2>/dev/null; then
    fail "$clone_scripts is not the install directory of a clone of mcpb." \
        "Clone mcpb, then run install/install.sh there. Nothing was changed."
fi
# shellcheck source-path=SCRIPTDIR source=home.sh
. "$clone_scripts/home.sh"
# shellcheck source-path=SCRIPTDIR source=progress.sh
. "$clone_scripts/progress.sh"

check_home
data=${XDG_DATA_HOME:-}
case $data in
/*) ;;
*) data=$HOME/.local/share ;; # what is relative is to be ignored
esac
prefix=$data/mcpb
bin=$HOME/.local/bin
yes=
extension=
# As `mcpb extension` chooses it.
usual_extension=$HOME/mcpb-extension
if [ -n "${MCPB_HOME:-}" ]; then
    usual_extension=$MCPB_HOME/extension
fi

usage="usage: install.sh [--yes] [--prefix DIR] [--extension DIR]"

while [ $# -gt 0 ]; do
    case $1 in
    --yes | -y) yes=--yes ;;
    --prefix)
        case ${2:-} in
        '' | -*) fail "--prefix needs a folder. $usage" ;;
        esac
        prefix=$2
        shift
        ;;
    --prefix=?*) prefix=${1#*=} ;;
    --extension)
        case ${2:-} in
        '' | -*) fail "--extension needs a folder. $usage" ;;
        esac
        extension=$2
        shift
        ;;
    --extension=?*) extension=${1#*=} ;;
    --help | -h)
        cat <<EOF
$usage

Installs mcpb from this clone, or upgrades it, registers it with your browsers, adds it to Claude Code on the
first installation, and copies the extension.

  --yes, -y        change the settings of browsers and of Claude Code without asking; they are listed all the same
  --prefix DIR     a new or an empty folder to install into, in place of
                   $prefix
  --extension DIR  a folder for the extension, in place of
                   $usual_extension
  --help, -h       show this

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
current=$prefix/venv

clone=$(dirname "$clone_scripts")

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

made=
new=
recorded=
has_written=
if [ ! -e "$prefix" ] && [ "$(readlink "$bin/mcpb" || true)" = "$current/bin/mcpb" ]; then
    # The directory and its record were moved away: a directory without other files counts as mcpb's.
    made="$HOME/.local
$data
$bin
"
fi

# Outermost first, one on each line.
make_folder() {
    [ -d "$1" ] && return
    if [ -e "$1" ] || [ -L "$1" ]; then
        fail "$1 is not a folder: move it away, then run this again."
    fi
    make_folder "$(dirname "$1")"
    mkdir "$1"
    made="$made$1
"
}

# write_record LINES: in one step, so that no run finds half of it; the former one stays if the disk is full.
write_record() {
    [ -f "$record" ] || : >"$record" # a folder with a mere draft in it would be refused
    has_written=yes
    if ! reason=$({ printf '%s\n' "$1" | sed '/^$/d' >"$record.new"; } 2>&1); then
        rm -f "$record.new"
        fail "$record could not be written: ${reason##*: }. Free some space, then run this again."
    fi
    mv -f "$record.new" "$record"
}

# After a failure: what this run began. What was there before is as it was.
clean_up() {
    end_step
    if [ -n "$new" ]; then
        [ "$(readlink "$current")" = "$new" ] && return
        rm -rf "${prefix:?}/$new"
    fi
    if [ -n "$recorded" ]; then
        # On a full disk it may stay as it is: an environment without files does no harm in it.
        [ -z "$has_written" ] || (write_record "$recorded") 2>/dev/null || true
    elif [ -n "$has_written" ]; then
        rm -f "$record" "$record.new"
    fi
    printf '%s' "$made" | sed '1!G;h;$!d' | while IFS= read -r folder; do
        rmdir "$folder" 2>/dev/null || true
    done
}

trap clean_up EXIT
trap 'exit 130' INT TERM HUP
make_folder "$prefix"
# One folder has one name, however it was spelled: links and the registration are compared by it.
prefix=$(CDPATH='' cd -P -- "$prefix" && pwd)
record=$prefix/install.record
current=$prefix/venv

# One run at a time. It is the open folder that is locked: that ends with the run, even with a killed one.
exec 9<"$prefix"
"$python" -I -c '
import fcntl
try:
    fcntl.flock(3, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    raise SystemExit(1)
except OSError:
    pass  # a file system without locks
' 3<&9 || fail "Another install.sh or uninstall.sh is at work in $prefix: wait until it has ended, then run this again."

if [ -f "$record" ]; then
    recorded=$(cat "$record")
elif [ -n "$(ls -A "$prefix")" ]; then
    fail "$prefix has other things in it: name an empty or a new folder with --prefix."
fi
if [ -e "$current" ] && [ ! -L "$current" ]; then
    fail "$current is not a link that install.sh made: move it away."
fi
make_folder "$bin"
# Written before it is made: what a killed run leaves, the next one and uninstall.sh know.
new=$(basename "$(mktemp -u "$prefix/env-XXXXXX")")
write_record "$recorded
$made
$new"
mkdir -m 700 "$prefix/$new"

# ── The environment ─────────────────────────────────────────────────────────────────────────────────────────

before=$(readlink "$current" || true)

# fail_step WHAT: also with the reason that ensurepip and pip may keep to themselves.
fail_step() {
    free_mb=$(df -Pk "$prefix" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "${free_mb:-99}" -ge 20 ] ||
        say "The disk is full: $free_mb MB are left for $prefix. Free 150 MB, then run this again."
    fail "$1 Nothing was changed."
}

environment=$prefix/$new
say "Installing $clone into $prefix"
run_step "Making an environment" "$python" -I -m venv "$environment" ||
    fail_step "$python could not make an environment in $prefix."
run_step "Installing mcpb and the packages that it needs" \
    "$environment/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-cache-dir "$clone" ||
    fail_step "pip could not install $clone."
"$environment/bin/python" -I -m bridge --version >/dev/null || fail "$clone does not start. Nothing was changed."

# The commands name the link, which outlives this environment; then the link is turned, in one step.
"$environment/bin/python" -I - "$environment" "$current" <<'EOF'
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

# Older ones go: those that were written down, and no others.
stays=$(printf '%s\n' "$recorded" | sed -n '/^\//p')
for old in $(printf '%s\n' "$recorded" | sed -n '/^env-[A-Za-z0-9]\{6\}$/p'); do
    if [ "$old" = "$before" ]; then
        stays="$stays
$old"
    else
        rm -rf "${prefix:?}/$old"
    fi
done
write_record "$stays
$made
$new"

# ── The commands ────────────────────────────────────────────────────────────────────────────────────────────

# link NAME: whether the command is reached through our link now.
link() {
    if [ "$(readlink "$bin/$1" || true)" = "$current/bin/$1" ]; then
        return 0
    fi
    if [ -e "$bin/$1" ] || [ -L "$bin/$1" ]; then
        say "$bin/$1 does not belong to mcpb and stays unchanged." \
            "To have this one there: mv $(quoted "$bin/$1") $(quoted "$bin/$1.other"), then run this again."
        return 1
    fi
    ln -s "$current/bin/$1" "$bin/$1"
}

# By its whole path: neither this terminal nor a client that a desktop starts need have it on PATH.
mcpb=$current/bin/mcpb
for name in mcpb-bridge mcpb; do
    ! link "$name" || mcpb=$bin/$name
done
say "Installed: $("$mcpb" --version)" ""

# ── What remains to be done, the last thing last ────────────────────────────────────────────────────────────

ended=0
if [ -z "$yes" ] && ! { [ -t 0 ] && [ -t 1 ]; }; then
    say "stdin is not a terminal: nothing new was registered with browsers."
else
    "$mcpb" install-native-host $yes || ended=$?
    [ "$ended" -eq 0 ] || say "mcpb is installed. Nothing new was registered with browsers."
fi

# has_client: whether the settings of a client that mcpb knows have it.
has_client() {
    "$current/bin/python" -I -c '
from install.checks.client_entries import find_client_entries
from install.machine import this_machine
raise SystemExit(not find_client_entries(this_machine()))'
}

# With its own command, on the first installation alone: an upgrade must not undo a removal by the user.
add_to_claude_code() {
    if [ -n "$before" ] || ! command -v claude >/dev/null; then
        return 1
    fi
    [ -n "$yes" ] || { [ -t 0 ] && [ -t 1 ]; } || return 1
    say "" "Add mcpb to Claude Code, for all directories:" "" "    $add" ""
    if [ -z "$yes" ]; then
        printf 'Run this? [y/N]: ' >&2
        read -r answer || answer=
        case $answer in
        [yY] | [yY][eE][sS]) ;;
        *) return 1 ;;
        esac
    fi
    claude mcp add --scope user browser -- "$mcpb" bridge --name browser </dev/null || return 1
    say "Undo: claude mcp remove --scope user browser"
}

add="claude mcp add --scope user browser -- $(quoted "$mcpb") bridge --name browser"
unadded=
if has_client; then
    say "" "MCP clients that run now use this version after their next start."
elif ! add_to_claude_code; then
    unadded=yes
fi
say ""
copied=0
"$mcpb" extension ${extension:+--directory "$extension"} || copied=$?
[ -z "$unadded" ] || say "" "Add it to your MCP client, for instance Claude Code:" "" "    $add"
[ -n "$before" ] || say "" "To try it with a small shop when the extension is loaded: $(quoted "$mcpb") demo --serve"
case :$PATH: in
*:"$bin":*) ;;
*) say "" "To type mcpb without its path, add this to your shell's profile: export PATH=\"$bin:\$PATH\"" ;;
esac
# A user has read the refusal; a script gets an exit code, unless there is no browser yet (3).
[ -z "$yes" ] || [ "$ended" -eq 0 ] || [ "$ended" -eq 3 ] || exit "$ended"
[ "$copied" -eq 0 ] || exit "$copied"
