# Sourced by the tests of the examples, behind lib.sh.

# start_example NAME ARGUMENT...: until it listens; its pid is in example_pid.
start_example() {
    local log=$work/$1.log
    "$BIN/example_$1" "${@:2}" >"$log" 2>&1 &
    example_pid=$!
    pids+=("$example_pid")
    wait_until_ready "$example_pid" "$log" '^listening' "$1"
}
