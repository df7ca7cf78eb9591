#!/usr/bin/env bash
# Seeded load on a live server, every byte compared: stress.sh BIN SECONDS [DIRECTORY [server options]]
BIN=$1
seconds=$2
where=${3:-}
source "$(dirname "$0")/lib.sh"
shift 2
[ $# -eq 0 ] || shift
export=$work/export
if [ -n "$where" ]; then
    export=$(mktemp -d "$where/nfsrdma-stress.XXXXXX")
    trap 'cleanup; rm -rf "$export"' EXIT
fi
mkdir -p "$export"
host=$(address)
start_server server --export "$export" --listen "$host" --loops 2 "$@"
url=nfs://$host$export
seed=$((RANDOM * 32768 + RANDOM))
echo "seed $seed"
# A machine that does not let one of the two run for two seconds ends their connections: that is tried again.
for try in 1 2 3; do
    status=0
    "$BIN/rpcrdma-stress" --dir "$url" --seed "$seed" --seconds "$seconds" --connections 8 --depth 8 --file-size 1M \
        --cancel-rate 0.01 --disconnect-rate 0.02 --json >"$work/result" || status=$?
    [ "$status" != 0 ] && [ "$try" -lt 3 ] && grep -q 'without our doing' "$work/result" || break
    rm -rf "${export:?}"/*
done
[ "$status" = 0 ] || { cat "$work/result"; tail -n 40 "$server_log"; fail "rpcrdma-stress --seed $seed"; }
cat "$work/result"
grep -q '"ok":true' "$work/result" || fail "no result"
for counter in bytes_read bytes_written cancelled disconnected; do
    if grep -q "\"$counter\":0," "$work/result"; then fail "$counter is 0: nothing was tried"; fi
done
[ -z "$(ls -A "$export")" ] || fail "something was left behind: $(ls -A "$export")"

# The same seed, the same sequence.
for i in 1 2; do
    "$BIN/rpcrdma-stress" --dir "$url" --seed 7 --ops 500 --connections 2 --depth 2 --json 2>/dev/null >"$work/same-$i" || fail "the run of seed 7"
    sed -n 's/.*"sequence":"\([0-9a-f]*\)".*/\1/p' "$work/same-$i" >"$work/sequence-$i"
done
[ -s "$work/sequence-1" ] || fail "no sequence"
cmp "$work/sequence-1" "$work/sequence-2" || fail "one seed gave two sequences"

# A directory that is not there, and a server that is not.
if "$BIN/rpcrdma-stress" --dir "$url/absent" --ops 10 2>"$work/err" >"$work/out"; then fail "a directory that is not there"; fi
grep -q "no such file" "$work/out" || fail "does not say what is wrong: $(cat "$work/out")"
status=0
"$BIN/rpcrdma-stress" --dir nonsense 2>"$work/err" || status=$?
[ $status = 2 ] || fail "exit status $status for a wrong --dir"

# An interrupt ends it in order.
"$BIN/rpcrdma-stress" --dir "$url" --seconds 60 >"$work/out" 2>&1 &
pids+=($!)
for _ in $(seq 600); do [ -z "$(ls -A "$export")" ] || break; sleep 0.1; done
kill -INT ${pids[-1]}
status=0
wait ${pids[-1]} || status=$?
unset 'pids[-1]'
[ $status = 130 ] || fail "exit status $status after an interrupt: $(cat "$work/out")"
[ -z "$(ls -A "$export")" ] || fail "an interrupted run left something behind"
stop_server
echo ok
