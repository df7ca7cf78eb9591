#!/usr/bin/env bash
# The server is killed and started again, stopped and continued, under copies of a tree: they end, and every byte is
# right: tool_recovery.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export" "$work/back"
serve() { # NAME
    start_server "$1" --listen "$host" --export "$work/export=/data" --handle-key "$work/key"
}
url=nfs://$host/data
tool() { timeout 120 "$BIN/nfsrdma" "$@"; }
kill_server() {
    kill -KILL "$server_pid"
    wait "$server_pid" 2>/dev/null || true
}
# trouble PID: the server goes and comes until PID has ended, at least KILLS times and then once more.
trouble() {
    local round=0
    while kill -0 "$1" 2>/dev/null && [ "$round" -lt 5 ]; do
        sleep 0.3
        kill_server
        round=$((round + 1))
        serve "again-$2-$round"
        sleep 1
    done
    [ "$round" -ge 1 ] || fail "$2: the copy was over before the server was killed"
}

filler=/dev/zero
make_tree "$work/tree"
for i in $(seq 40); do
    head -c $((3000000 + i * 4099)) /dev/urandom >"$work/tree/large-$i"
done
serve first

tool put -r --hard --wsize 4096 --stats "$work/tree" "$url/copy" 2>"$work/put.err" &
pid=$!
trouble "$pid" put
status=0
wait "$pid" || status=$?
[ "$status" = 0 ] || { cat "$work/put.err" >&2; fail "put -r --hard: status $status"; }
same_tree "$work/tree" "$work/export/copy"
grep -E 'reconnects|resends|recover_seconds_max' "$work/put.err"
grep -qE 'reconnects +[1-9]' "$work/put.err" || fail "put -r: nothing was recovered"

tool get -r --hard --rsize 4096 --stats "$url/copy" "$work/back" 2>"$work/get.err" &
pid=$!
trouble "$pid" get
status=0
wait "$pid" || status=$?
[ "$status" = 0 ] || { cat "$work/get.err" >&2; fail "get -r --hard: status $status"; }
same_tree "$work/tree" "$work/back/copy"
grep -qE 'reconnects +[1-9]' "$work/get.err" || fail "get -r: nothing was recovered"

# A hard client waits for a server that is not there yet.
kill_server
tool ls --hard "$url/copy" >"$work/out" 2>"$work/err" &
pid=$!
sleep 1
kill -0 "$pid" || fail "ls --hard did not wait: $(cat "$work/err")"
serve late
wait "$pid" || fail "ls --hard: $(cat "$work/err")"
grep -q large-1 "$work/out" || fail "ls --hard: $(cat "$work/out")"

# B23: stopped and continued; a soft client with the time goes on, one without ends.
tool put --soft=60 --wsize 4096 "$work/tree/large-1" "$url/stopped" 2>"$work/err" &
pid=$!
for _ in $(seq 600); do [ -s "$work/export/stopped" ] && break; sleep 0.02; done
kill -STOP "$server_pid"
sleep 4
kill -CONT "$server_pid"
wait "$pid" || fail "B23: a put over a stopped server: $(cat "$work/err")"
cmp "$work/tree/large-1" "$work/export/stopped"

kill_server
status=0
tool ls --soft=1 --timeout 1 "$url" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "--soft=1: status $status"
serve last
stop_server
echo ok
