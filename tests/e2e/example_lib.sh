# Sourced by the tests of the examples, behind lib.sh.

# start_example NAME ARGUMENT...: until it listens; its pid is in example_pid.
start_example() {
    local log=$work/$1.log
    "$BIN/example_$1" "${@:2}" >"$log" 2>&1 &
    example_pid=$!
    pids+=("$example_pid")
    for _ in $(seq 1200); do
        if grep -q '^listening' "$log"; then return 0; fi
        kill -0 "$example_pid" 2>/dev/null || { cat "$log" >&2; fail "$1 ended"; }
        sleep 0.05
    done
    fail "$1 was not ready in a minute"
}
