# Progress of a step, for install.sh and prepare.sh, which source this file.
# shellcheck shell=sh

ticker=
step_log=

# run_step WHAT COMMAND...: run a command, and show what runs and for how long. Its output appears if it fails.
# On a terminal one line counts the seconds; elsewhere it is printed once.
run_step() {
    step=$1
    shift
    step_log=$(mktemp)
    step_began=$(date +%s)
    if [ -t 2 ]; then
        # It polls the script's process, which may be killed, and closes 9, the descriptor of its lock.
        while kill -0 $$ 2>/dev/null; do
            printf '\r%s ... %s s' "$step" $(($(date +%s) - step_began)) >&2
            sleep 1 >/dev/null 2>&1
        done 9<&- &
        ticker=$!
    else
        printf '%s ...\n' "$step" >&2
    fi
    step_status=0
    "$@" >"$step_log" 2>&1 || step_status=$?
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        printf '\r%s: %s s    \n' "$step" $(($(date +%s) - step_began)) >&2
        ticker=
    fi
    [ "$step_status" = 0 ] || tail -n "${STEP_LINES:-20}" "$step_log" >&2
    end_step
    return "$step_status"
}

# end_step: also for a script that ends in the middle of a step.
end_step() {
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        printf '\n' >&2 || true # the prompt begins on a new line, unless the terminal has gone
    fi
    [ -z "$step_log" ] || rm -f "$step_log"
    ticker=
    step_log=
}
