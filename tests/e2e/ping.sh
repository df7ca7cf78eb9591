# rpcrdma-ping between two processes: sizes, both families, refusals, signals.
BIN=$1
source "$(dirname "$0")/lib.sh"

ping() { timeout 60 "$BIN/rpcrdma-ping" "$@"; }

# start_ping_server ARGUMENT...: until it listens.
start_ping_server() {
    "$BIN/rpcrdma-ping" -s "$@" >"$work/server.log" 2>&1 &
    ping_pid=$!
    pids+=("$ping_pid")
    for _ in $(seq 1200); do
        if grep -q listening "$work/server.log"; then return 0; fi
        kill -0 "$ping_pid" 2>/dev/null || { cat "$work/server.log" >&2; fail "ping server ended"; }
        sleep 0.05
    done
    fail "the ping server was not ready in a minute"
}

a=$(address)
start_ping_server -a "$a" -P
for size in 20 63 64 4095 4096 4097 65536 1048576; do
    ping -c -a "$a" -C 20 -S "$size" >"$work/out" || fail "$size bytes: status $?"
    grep -q '^20 pings of .* verified' "$work/out" || fail "$size bytes: $(cat "$work/out")"
done
ping -c -a "$a" -C 3 --bind "$(address):5000" >/dev/null || fail "with an address and port of its own"
for _ in $(seq 20); do ping -c -a "$a" -C 1 >/dev/null || fail "connection after connection"; done

status=0
ping -c -a "$a" -p 9 2>"$work/err" || status=$?
[ "$status" = 1 ] && grep -q 'nobody listens' "$work/err" || fail "closed port: $status $(cat "$work/err")"
status=0
ping -c 2>/dev/null || status=$?
[ "$status" = 2 ] || fail "usage error gave $status"

# A client that is interrupted says goodbye; the server goes on, and ends when it is told to. On a busy machine the client
# needs its time until it pings.
for pause in 0.3 3 10; do
    "$BIN/rpcrdma-ping" -c -a "$a" -i 0.01 >"$work/out" &
    client=$!
    for _ in $(seq 1200); do # until it catches the signal: the second bit of the mask
        caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$client/status")
        [ $((0x${caught:-0} & 2)) = 0 ] || break
        sleep 0.05
    done
    sleep "$pause"
    kill -INT "$client"
    wait "$client" || fail "an interrupted client: status $?"
    ! grep -q verified "$work/out" || break
done
grep -q verified "$work/out" || fail "an interrupted client prints what it has"
kill -9 "$ping_pid" 2>/dev/null || true
wait "$ping_pid" 2>/dev/null || true

# One client is served, and then it ends.
start_ping_server -a "$a"
ping -c -a "$a" -C 2 >/dev/null || fail "second server"
wait "$ping_pid" || fail "the server's status is $?"

# Same address, IPv6.
port=$((RANDOM % 8000 + 20000))
start_ping_server -a ::1 --bind "[::1]:$port" -P
ping -c -a ::1 -C 3 --peer-udp-port "$port" >/dev/null || fail "IPv6"
kill -TERM "$ping_pid"
wait "$ping_pid" || fail "terminated server: status $?"
