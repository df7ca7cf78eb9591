#!/usr/bin/env bash
# The server is killed and started again every few seconds under copies both ways and a load that
# makes, renames and removes: no error, every byte right. recover.sh BIN [SECONDS [EVERY_MS [CONNECTIONS]]]
BIN=$1
seconds=${2:-10}
every=${3:-2000}
connections=${4:-1}
source "$(dirname "$0")/lib.sh"

mkdir -p "$work/serve/export"
make_tree "$work/source"
at=$(address)
mkfifo "$work/hold"
"$BIN/nfsrdma_recover" "$BIN/nfsrdmad" "$work/serve" "$at" "$seconds" "$every" "$connections" \
    <"$work/hold" >"$work/recover.log" 2>&1 &
load_pid=$!
pids+=("$load_pid")
exec 9>"$work/hold"  # its standard input: it serves until this is closed
for _ in $(seq 1200); do
    grep -q '^recover: ready' "$work/recover.log" && break
    kill -0 $load_pid 2>/dev/null || { cat "$work/recover.log" >&2; fail "the load ended at once"; }
    sleep 0.05
done

copies=0
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ] || [ $copies = 0 ]; do
    kill -0 $load_pid 2>/dev/null || { cat "$work/recover.log" >&2; fail "the load has failed"; }
    timeout 300 "$BIN/nfsrdma" --hard --nconnect "$connections" put -r "$work/source" \
        "nfs://$at/data/copy$copies" >"$work/put.log" 2>&1 ||
        { cat "$work/put.log" >&2; fail "put, copy $copies"; }
    same_tree "$work/source" "$work/serve/export/copy$copies"
    timeout 300 "$BIN/nfsrdma" --hard --nconnect "$connections" get -r "nfs://$at/data/copy$copies" \
        "$work/back" >"$work/get.log" 2>&1 ||
        { cat "$work/get.log" >&2; fail "get, copy $copies"; }
    same_tree "$work/source" "$work/back"
    timeout 300 "$BIN/nfsrdma" --hard rm -r "nfs://$at/data/copy$copies" >"$work/rm.log" 2>&1 ||
        { cat "$work/rm.log" >&2; fail "rm, copy $copies"; }
    [ ! -e "$work/serve/export/copy$copies" ] || fail "rm left something"
    rm -rf "$work/back"
    copies=$((copies + 1))
done
for _ in $(seq 3000); do
    grep -q '^recover: restarts=' "$work/recover.log" && break
    kill -0 $load_pid 2>/dev/null || break
    sleep 0.1
done
exec 9>&-
wait $load_pid || { cat "$work/recover.log" >&2; fail "the load"; }
[ -z "$(ls -A "$work/serve/export")" ] || { ls "$work/serve/export" >&2; fail "something is left"; }
grep '^recover: restarts=' "$work/recover.log"
echo "recover: $copies copies there and back, every byte right"
echo ok
