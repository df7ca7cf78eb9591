#!/usr/bin/env bash
# A server that is stopped finishes what is in progress and tells its clients, and the next one takes the same address
# at once; a client that copies meanwhile sees a delay: drain.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
mkdir -p "$work/export" "$work/tree"
for i in 1 2 3 4 5 6; do head -c $((3000000 * i)) /dev/urandom >"$work/tree/file.$i"; done
host=$(address)
start() { start_server "drain-$1" --export "$work/export" --listen "$host" --state-dir "$work/state"; }
start 0
"$BIN/nfsrdma" put -r "$work/tree" "nfs://$host$work/export/tree" >"$work/put.log" 2>&1 &
put=$!
pids+=("$put")
for round in 1 2 3; do
    sleep 0.2
    began=$(date +%s%N)
    stop_server
    start "$round"
    echo "round $round: stopped and started in $((($(date +%s%N) - began) / 1000000)) ms"
done
wait "$put" || { cat "$work/put.log" >&2; fail "the copy did not survive the restarts"; }
diff -r "$work/tree" "$work/export/tree" || fail "the copy differs"
stop_server
echo ok
