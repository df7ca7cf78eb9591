# Shared by the end-to-end tests: sourced, not run. The caller sets BIN to the folder of the programs.
set -euo pipefail

work=$(mktemp -d "${TMPDIR:-/dev/shm}/nfsrdma-e2e.XXXXXX")
pids=()
cleanup() {
    local pid
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "needs $*"; exit 77; }

# own_rpcbind INSIDE: goes on in namespaces where ports and /run are the test's own, as `SCRIPT BIN inside`, and starts
# rpcbind there; its pid is in rpcbind_pid.
own_rpcbind() {
    [ "$(id -u)" = 0 ] || skip "root: a network namespace for rpcbind"
    local program
    for program in rpcbind rpcinfo; do
        command -v $program >/dev/null || skip "root: to install $program (package rpcbind)"
    done
    command -v showmount >/dev/null || skip "root: to install showmount (package nfs-common)"
    if [ "$1" != inside ]; then
        unshare --net --mount true 2>/dev/null || skip "root: namespaces, which are refused here"
        rm -rf "$work"
        exec unshare --net --mount --fork bash "$0" "$BIN" inside
    fi
    ip link set lo up
    # rpcbind's socket has a fixed place there.
    mount -t tmpfs none /run || skip "root: a mount namespace"
    rpcbind -f -w >"$work/rpcbind.log" 2>&1 &
    rpcbind_pid=$!
    pids+=("$rpcbind_pid")
    for _ in $(seq 1200); do [ -S /run/rpcbind.sock ] && break; sleep 0.05; done
    [ -S /run/rpcbind.sock ] || { cat "$work/rpcbind.log" >&2; fail "rpcbind did not start"; }
}

# A loopback address of this test's own.
address() { echo "127.$((RANDOM % 253 + 1)).$((RANDOM % 253 + 1)).$((RANDOM % 253 + 1))"; }

# wait_until_ready PID LOG LINE PROGRAM [TROUBLE]: until LOG has what matches LINE; what is wrong is said in TROUBLE, else in LOG.
wait_until_ready() {
    for _ in $(seq 1200); do
        if grep -q "$3" "$2"; then return 0; fi
        kill -0 "$1" 2>/dev/null || { cat "${5:-$2}" >&2; fail "$4 ended at start"; }
        sleep 0.05
    done
    cat "${5:-$2}" >&2
    fail "$4 was not ready in a minute"
}

# start_server NAME ARGUMENT...: runs nfsrdmad until it is ready; its pid is in server_pid.
start_server() {
    local log=$work/$1.log
    server_log=$log
    shift
    "$BIN/nfsrdmad" "$@" >"$log" 2>&1 &
    server_pid=$!
    pids+=("$server_pid")
    wait_until_ready "$server_pid" "$log" '^nfsrdmad: serving' nfsrdmad
}

# stop_server: ends the last one and checks that it ended well.
stop_server() {
    kill -TERM "$server_pid"
    wait "$server_pid" || { status=$?; tail -n 60 "$server_log" >&2; fail "nfsrdmad ended with status $status"; }
    pids=("${pids[@]/$server_pid/}")
    pids=(${pids[@]})
}

# make_tree DIR: files of many sizes, with a link, modes and odd names. Their bytes come from the file `filler`.
filler=/dev/urandom
make_tree() {
    mkdir -p "$1/sub/deeper" "$1/empty dir"
    local size
    for size in 0 1 2 3 5 6 7 1023 1024 1025 2047 2048 2049 4095 4096 4097 8191 8193 65535 65537 1048573 1048576 1048579; do
        head -c "$size" "$filler" >"$1/sub/file-$size"
    done
    head -c 8388608 "$filler" >"$1/sub/deeper/big"
    echo text >"$1/with space and ünicode"
    chmod 0640 "$1/sub/file-1"
    chmod 0755 "$1/sub/file-2"
    ln -s file-3 "$1/sub/link"
}

same_tree() { diff -r --no-dereference "$1" "$2" >&2 || fail "$1 and $2 differ"; }

# A shell's job in the background ignores SIGINT until the program takes it: by a descriptor, with the signal blocked.
takes_interrupts() { # PID
    for _ in $(seq 600); do
        (($((16#$(awk '$1 == "SigBlk:" {print $2}' "/proc/$1/status"))) & 2)) && return 0
        sleep 0.1
    done
    fail "process $1 never took interrupts"
}
