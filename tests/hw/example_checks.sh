# Row 13: the examples of the C++ face, on Linux's rxe. Sourced by guest.sh.

# example_talks SERVER CLIENT WHERE EXPECTED CLIENT-ARGUMENT...: the server on rxe at 10.9.0.1, the client where WHERE runs it. The
# server ends when it is told to, or by itself.
example_talks() {
    local pid status=0
    "$BIN/example_$1" 10.9.0.1 rdmacore:rxe0 >"$scratch/example" 2>&1 &
    pid=$!
    for _ in $(seq 150); do ! grep -q '^listening' "$scratch/example" && kill -0 "$pid" || break; sleep 0.2; done
    "$3" "$BIN/example_$2" 10.9.0.1 "${@:5}" >"$scratch/example.client" 2>&1 || status=$?
    cat "$scratch/example.client"
    [ "$status" = 0 ] || fail "example_$2: status $status: $(tail -n 1 "$scratch/example.client"), $(tail -n 1 "$scratch/example")"
    grep -q "$4" "$scratch/example.client" || fail "example_$2: $(tail -n 1 "$scratch/example.client")"
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
    echo "note: $(tail -n 1 "$scratch/example.client")"
}
here_by() { "$@"; }
example_reads() { # DEVICE: a file of nfsrdmad on rxe into the program's own memory
    "$BIN/nfsrdmad" --device rdmacore:rxe0 --export "$scratch/own" --listen 10.9.0.1:20052 --mountd-port 20053 \
        --state-dir "$scratch/own-state" >"$scratch/example" 2>&1 &
    local pid=$! status=0
    for _ in $(seq 150); do ! grep -q '^nfsrdmad: serving' "$scratch/example" && kill -0 "$pid" || break; sleep 0.2; done
    "$BIN/example_nfs_read" 10.9.0.1:20052 "$scratch/own" file "$1" >"$scratch/example.client" 2>&1 || status=$?
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
    [ "$status" = 0 ] || fail "status $status: $(tail -n 1 "$scratch/example.client"), $(tail -n 1 "$scratch/example")"
    grep -q ' 1.00 keys each, payload_copied_bytes 0$' "$scratch/example.client" || fail "$(tail -n 1 "$scratch/example.client")"
    echo "note: $(tail -n 1 "$scratch/example.client")"
}
row_13() {
    [ -x "$BIN/example_nfs_read" ] || { say 13 all "skipped: needs examples: they were not built"; return; }
    mkdir -p "$scratch/own"
    head -c 9437185 /dev/urandom >"$scratch/own/file"
    check 13 "RPC program" example_talks rpc_server rpc_client here_by '^equal$' rdmacore:rxe0 1048576
    check 13 "RPC program, client on softroce" example_talks rpc_server rpc_client peer '^equal$' softroce 1048576
    check 13 "block protocol" example_talks block_target block_initiator here_by '128 keys, 128 freed by the target, 0 by us: equal' rdmacore:rxe0
    check 13 "block protocol, initiator on softroce" example_talks block_target block_initiator peer '128 keys.*equal' softroce
    check 13 "file into own memory" example_reads rdmacore:rxe0
    check 13 "clean disconnect" qps_are "$base_qps"
}
