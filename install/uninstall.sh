#!/bin/sh
# Take away what install/install.sh put on this machine, and nothing else.
#
#     install/uninstall.sh [--yes] [--purge] [--prefix DIR]
#
# It shows what it will do, asks, unregisters the native host, then removes the environment, the links to it and
# the folders made for them. Settings and logs (~/.mcpb) stay, unless --purge says that they go as well. It may be
# run again after it was interrupted.

set -eu

say() { printf '%s\n' "$@" >&2; }

fail() {
    say "$@"
    exit 1
}

scripts=$(CDPATH='' cd -- "$(dirname "$0")" && pwd)
# shellcheck source-path=SCRIPTDIR source=home.sh
. "$scripts/home.sh"

check_home
data=${XDG_DATA_HOME:-}
case $data in
/*) ;;
*) data=$HOME/.local/share ;; # what is relative is to be ignored
esac
prefix=$data/mcpb
bin=$HOME/.local/bin
home=${MCPB_HOME:-$HOME/.mcpb}
# Where hosts meet bridges besides, unless a home of mcpb's is named.
runtime=
[ -n "${MCPB_HOME:-}" ] || runtime=/run/user/$(id -u)/mcpb
purge=
yes=

# For a command that is to be copied into a shell.
quoted() {
    case $1 in
    *[!A-Za-z0-9_./-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
    *) printf '%s' "$1" ;;
    esac
}

usage="usage: uninstall.sh [--yes] [--purge] [--prefix DIR]"

while [ $# -gt 0 ]; do
    case $1 in
    --yes | -y) yes=--yes ;;
    --purge) purge=--purge ;;
    --prefix)
        case ${2:-} in
        '' | -*) fail "--prefix needs a folder. $usage" ;;
        esac
        prefix=$2
        shift
        ;;
    --prefix=?*) prefix=${1#*=} ;;
    --help | -h)
        cat <<EOF
$usage

Unregisters mcpb from all browsers, and removes what install/install.sh has put on this machine.

  --yes, -y     do not ask; otherwise what will be removed is shown first
  --purge       also your settings, the logs and the cached tools, in
                $home
  --prefix DIR  the folder that install.sh was given, in place of
                $prefix
  --help, -h    show this
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
# As install.sh has named it.
[ ! -d "$prefix" ] || prefix=$(CDPATH='' cd -P -- "$prefix" && pwd)
record=$prefix/install.record
current=$prefix/venv
python=$current/bin/python

# ── What is there ───────────────────────────────────────────────────────────────────────────────────────────

# What was in use when mcpb went: folders in which nothing is left by now. Whether there were any.
sweep() {
    swept=1
    for folder in "$home/run" "$home" ${runtime:+"$runtime"}; do
        [ ! -d "$folder" ] || ! rmdir "$folder" 2>/dev/null || swept=0
    done
    return "$swept"
}

is_linked() { [ "$(readlink "$bin/$1" || true)" = "$current/bin/$1" ]; }

if [ -e "$prefix" ] && [ ! -f "$record" ]; then
    fail "install.sh has put nothing into $prefix: no install.record is there, so nothing was removed." \
        "Another folder? $usage" \
        "If it is mcpb's all the same: mcpb uninstall-native-host, then remove the folder yourself."
fi
if [ ! -e "$prefix" ] && ! is_linked mcpb && ! is_linked mcpb-bridge; then
    nothing="install.sh has put nothing into $prefix. Another folder? $usage"
    [ -n "$purge" ] || fail "$nothing"
    if [ -e "$home/bin/mcpb-native-host" ] || ls "$home/bin/shim-"* >/dev/null 2>&1; then
        fail "Browsers still start the mcpb of $home, and that of $prefix is gone." \
            "Run install/install.sh, then this again. (With pipx or uv: mcpb uninstall-native-host --purge)"
    fi
    for folder in "$home/run" ${runtime:+"$runtime"}; do
        ! ls "$folder"/*.lock >/dev/null 2>&1 ||
            fail "$folder is in use by a running browser or MCP client: close them, then" \
                "run this again. If none of them runs: rm -r $(quoted "$folder")"
    done
    if sweep && [ ! -d "$home" ]; then
        say "The mcpb of $prefix was gone already. The folders that were in use then are removed now."
        exit 0
    fi
    [ -d "$home" ] || fail "$nothing"
    fail "The mcpb of $prefix is gone already. What it kept for you is left: $home" \
        "To remove that as well: rm -r $(quoted "$home")"
fi
if [ -z "$yes" ] && ! { [ -t 0 ] && [ -t 1 ]; }; then
    say "stdin is not a terminal: pass --yes. Nothing was removed."
    exit 2
fi

# ── One run at a time: install.sh locks the folder in the same way ──────────────────────────────────────────

# lock PYTHON: the status is 75 when another run has it.
lock() {
    "$1" -I -c '
import fcntl
try:
    fcntl.flock(3, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    raise SystemExit(75)
except OSError:
    pass  # a file system without locks
' 3<&9 2>/dev/null
}

if [ -d "$prefix" ]; then
    exec 9<"$prefix"
    # Without any Python there is no other run.
    for candidate in "$python" "${PYTHON:-python3}"; do
        status=0
        lock "$candidate" || status=$?
        [ "$status" != 75 ] ||
            fail "Another install.sh or uninstall.sh is at work in $prefix: wait until it has ended, then run this again."
    done
fi

# Which Python browsers start; nothing when none is registered.
registered() { "$python" -I -c 'from install.wrapper_repair import registered_interpreter; print(registered_interpreter())'; }

unregister() {
    "$python" -I -m bridge uninstall-native-host $purge "$1" ||
        fail "Nothing was removed. Fix the reported error, then run this again."
}

# is_here FILE: below our folder, by whatever name.
is_here() {
    case $(CDPATH='' cd -P -- "$(dirname "$1")" && pwd) in
    "$prefix"/*) ;;
    *) return 1 ;;
    esac
}

# remains: what is left in files of other programs, which the end of this script names.
remains() {
    "$python" -I -c '
from install.cli import format_remains
from install.machine import this_machine
from native_host.system.home_layout import mcpb_home
print(format_remains(this_machine(), mcpb_home()))'
}

is_known=
left=
if "$python" -I -m bridge --version >/dev/null 2>&1; then
    by=$(registered)
    if [ -n "$by" ] && [ -x "$by" ] && ! is_here "$by"; then
        say "Browsers start another installation of mcpb ($by): its registration stays." \
            ${purge:+"So do the settings and the logs, in spite of --purge: that installation uses them."}
    else
        is_known=yes
        left=$(remains 2>/dev/null) || left= # an earlier version does not know
    fi
else
    say "The mcpb in $prefix does not start, so it cannot unregister itself. If browsers still know it:" \
        "run install/install.sh, then install/uninstall.sh again."
fi

# ── Show and ask ────────────────────────────────────────────────────────────────────────────────────────────

[ -z "$is_known" ] || unregister --dry-run
say "  remove  $prefix"
for name in mcpb mcpb-bridge; do
    ! is_linked "$name" || say "  remove  $bin/$name"
done
if [ -z "$yes" ]; then
    printf 'Remove all this? [y/N]: ' >&2
    read -r answer || answer=
    case $answer in
    [yY] | [yY][eE][sS]) ;;
    *) fail "Nothing was removed." ;;
    esac
fi

# ── Registration, links, environments, folders ──────────────────────────────────────────────────────────────

[ -z "$is_known" ] || unregister --yes >/dev/null
for name in mcpb mcpb-bridge; do
    ! is_linked "$name" || rm "$bin/$name"
done
# Without a record, which goes when the folder is moved away, what is empty is taken to be ours.
recorded=$(cat "$record" 2>/dev/null || printf '%s\n' "$HOME/.local" "$data" "$bin" "$prefix")
for environment in $(printf '%s\n' "$recorded" | sed -n '/^env-[A-Za-z0-9]\{6\}$/p'); do
    rm -rf "${prefix:?}/$environment"
done
for link in "$current" "$prefix/venv.new"; do
    [ ! -L "$link" ] || rm "$link"
done
rm -f "$record.new" "$record"
# Those that install.sh made, innermost first, as far as nothing else is in them.
printf '%s\n' "$recorded" | sed -n '/^\//p' | sed '1!G;h;$!d' | while IFS= read -r folder; do
    rmdir "$folder" 2>/dev/null || true
done
if [ -d "$prefix" ] && [ -n "$(ls -A "$prefix")" ]; then
    say "$prefix stays: there are things in it that install.sh did not make."
fi
say "Done."
if [ -z "$purge" ] && [ -n "$is_known" ] && [ -d "$home" ]; then
    say "Your settings and the logs stay. To remove them as well: rm -r $(quoted "$home")"
fi
[ -z "$left" ] || say "$left"
