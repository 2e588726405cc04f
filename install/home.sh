# Check of the user's home, for install.sh and uninstall.sh, which source this file and define `fail`.
# shellcheck shell=sh

# check_home: fail unless HOME is a directory of this user and MCPB_HOME is unset or absolute. Otherwise mcpb
# would use another home than these scripts (native_host/system/home_layout.py).
check_home() {
    case ${HOME:-} in
    /*) ;;
    *) fail "HOME is not set to your home directory: set it, then run this again. Nothing was changed." ;;
    esac
    [ -d "$HOME" ] ||
        fail "HOME is $HOME, which is not a directory: set it to your home directory, then run this again." \
            "Nothing was changed."
    if [ -z "$(find -H "$HOME" -prune -user "$(id -u)")" ]; then
        hint=
        [ "$(id -u)" != 0 ] || hint=", without sudo"
        fail "HOME is $HOME, which belongs to another user than $(id -un): run this as that user$hint." \
            "Nothing was changed."
    fi
    case ${MCPB_HOME:-/} in
    /*) ;;
    *) fail "MCPB_HOME is $MCPB_HOME: set it to an absolute path, then run this again. Nothing was changed." ;;
    esac
}
