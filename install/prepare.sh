#!/bin/sh
# Make this clone ready: `prepare.sh run` for the program, `prepare.sh test` for its tests as well.
#
# Everything goes into .venv and node_modules, and is done once for each state of pyproject.toml and
# package-lock.json. What the system lacks is brought with apt where that is allowed without a password; where it
# is not, this says what is missing and what to run.

set -eu
CDPATH='' cd -- "$(dirname "$0")/.."

purpose=${1:-run}
oldest='(3, 11)'

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 1
}

# shellcheck source-path=SCRIPTDIR source=progress.sh
. install/progress.sh
trap end_step EXIT
trap 'exit 130' INT TERM HUP

# ── The system's packages ───────────────────────────────────────────────────────────────────────────────────

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends "$@"; }

update_and_install() { apt_get install "$@" || { apt_get update && apt_get install "$@"; }; }

apt_install() { STEP_LINES=5 run_step "Installing $* with apt" update_and_install "$@"; }

# need WHAT PACKAGE...: bring packages, or end with the command that does.
need() {
    what=$1
    shift
    if may_install && apt_install "$@"; then
        return 0
    fi
    fail "Missing: $what. Run: sudo apt-get install $*"
}

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

make_venv() {
    if is_new_enough .venv/bin/python; then
        return 0
    fi
    python=$(find_python) || need "Python 3.11 or newer" python3 python3-venv
    python=${python:-$(find_python)} || fail "The system's Python is older than 3.11: set PYTHON to a newer one."
    # Debian splits ensurepip off; a venv made without it has no pip.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        need "the venv module of $python" "$("$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')"
    fi
    rm -rf .venv
    run_step "Making .venv with $python" "$python" -m venv .venv
}

# up_to_date STAMP FILE: whether the stamp was made from this very file.
up_to_date() { [ -f "$1" ] && [ "$(cat "$1")" = "$(cksum <"$2")" ]; }

stamp() { cksum <"$2" >"$1"; }

install_program() {
    up_to_date .venv/run.stamp pyproject.toml && return 0
    run_step "Installing mcpb into .venv" \
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable .
    stamp .venv/run.stamp pyproject.toml
}

install_dev_tools() {
    up_to_date .venv/dev.stamp pyproject.toml && return 0
    # Older pips do not know dependency groups.
    .venv/bin/python -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print("\n".join(tomllib.load(file)["dependency-groups"]["dev"]))' >.venv/dev-requirements.txt
    run_step "Installing the development tools into .venv" \
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement .venv/dev-requirements.txt
    stamp .venv/dev.stamp pyproject.toml
}

# ── Node (types of the extension's JavaScript; a client, a server and a page library that tests use) ─────────

install_node_packages() {
    command -v npm >/dev/null || need "Node.js with npm" nodejs npm
    up_to_date node_modules/lock.stamp package-lock.json && return 0
    run_step "Installing the packages of package-lock.json" npm ci --no-audit --no-fund --loglevel=error
    stamp node_modules/lock.stamp package-lock.json
}

# Native host of Claude in Chrome, for interoperability tests only, hence no scripts.
install_other_host() {
    [ "$(uname -sm)" = "Linux x86_64" ] || return 0
    up_to_date tests/data/interop/node_modules/lock.stamp tests/data/interop/package-lock.json && return 0
    run_step "Fetching the package of tests/data/interop/package-lock.json, 180 MB" \
        npm ci --prefix tests/data/interop --ignore-scripts --no-audit --no-fund --loglevel=error || return 1
    stamp tests/data/interop/node_modules/lock.stamp tests/data/interop/package-lock.json
}

# ── Browsers ────────────────────────────────────────────────────────────────────────────────────────────────

has_chromium() {
    .venv/bin/python -c 'import sys; from demo.chromium import find_chromium; sys.exit(find_chromium() is None)'
}

has_firefox() {
    PYTHONPATH=tests/support .venv/bin/python -c 'import sys; from real_firefox import find_firefox; sys.exit(find_firefox() is None)'
}

# bring_browser CHECK NAME VARIABLE VALUE PACKAGE...: the variable is set but empty to do without it.
bring_browser() {
    check=$1 browser=$2 variable=$3 value=$4
    shift 4
    "$check" && return 0
    if [ -z "$value" ]; then
        say "$variable is empty: no real $browser is used."
    elif may_install && apt_install "$@" && "$check"; then
        return 0
    else
        say "Missing: $browser. To see it with a real one: sudo apt-get install $*, or set $variable."
    fi
    return 1
}

# Without chromium-sandbox, which apt only recommends, Chromium starts for no user where the kernel restricts
# namespaces.
bring_chromium() { bring_browser has_chromium Chromium MCPB_CHROMIUM "${MCPB_CHROMIUM-unset}" chromium chromium-sandbox; }
bring_firefox() { bring_browser has_firefox Firefox MCPB_FIREFOX "${MCPB_FIREFOX-unset}" firefox-esr; }

make_venv
install_program
case $purpose in
run)
    bring_chromium || true # the demo has a simulated browser
    ;;
test)
    install_dev_tools
    install_node_packages
    command -v shellcheck >/dev/null || need "shellcheck" shellcheck
    command -v curl >/dev/null || need "curl" curl
    missing=
    bring_chromium || missing=yes
    bring_firefox || missing=yes
    if [ -n "$missing" ] && [ "${CI:-}" = true ]; then
        fail "CI=true: the tests in real browsers are not optional."
    fi
    if ! install_other_host; then
        [ "${CI:-}" != true ] || fail "CI=true: the tests with the native host of Claude in Chrome are not optional."
        say "Missing: the native host of Claude in Chrome. Its tests are left out."
    fi
    ;;
*)
    fail "usage: install/prepare.sh run|test"
    ;;
esac
