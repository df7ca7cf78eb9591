# B64 (CVE-2021-46828): 80 idle connections to a program with 64 fds, and then a client that wants something. It is served, the
# idle ones give way, and the program sleeps.
BIN=$1
source "$(dirname "$0")/lib.sh"
count=80
address=$(address)

# cpu_ticks PID: what it used, in 1/100 s.
cpu_ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

: >"$work/server"
(ulimit -n 64 && exec "$BIN/depot_server" "$address" 0 0) >"$work/server" 2>&1 &
server=$!
pids+=("$server")
wait_until_ready "$server" "$work/server" '^serving' depot_server
port=$(sed -n 's/.*and RDMA port //p' "$work/server")
[ "$(awk '/Max open files/ {print $4}' "/proc/$server/limits")" = 64 ] || fail "the server has more than 64 fds"

: >"$work/idle"
mkfifo "$work/stay"
"$BIN/nfsrdma_tirpc_idle" "$address" "$port" $count <"$work/stay" >"$work/idle" 2>"$work/idle.err" &
idle=$!
pids+=("$idle")
exec 9>"$work/stay"
wait_until_ready "$idle" "$work/idle" "^idle: $count" nfsrdma_tirpc_idle "$work/idle.err"

# Whoever is left of them does nothing, and neither does the server.
before=$(cpu_ticks "$server")
sleep 4
used=$(($(cpu_ticks "$server") - before))
[ "$used" -le 20 ] || fail "the server used $used hundredths of a second in 4 s, in which nobody called"
fds=$(ls "/proc/$server/fd" | wc -l)
[ "$fds" -ge 40 ] || fail "the server has but $fds fds: too few for the test"

timeout 30 "$BIN/nfsrdma_tirpc_example" rdma "$address" "$port" 64 >"$work/real" 2>&1 ||
    { cat "$work/real" "$work/server" >&2; fail "a client that calls was not served in 30 s"; }
grep -q '^all: ' "$work/real" || fail "the client says: $(cat "$work/real")"
exec 9>&-
wait "$idle" || { cat "$work/idle.err" >&2; fail "the idle clients did not end well"; }
kill -0 "$server" || fail "the server ended"
echo ok
