#!/usr/bin/env bash
# Verified load while things go wrong: faults.sh BIN SECONDS
# Packets, connection management, Receives and queue pairs by the client's soft device; the server is killed, and stopped.
BIN=$1
seconds=$2
source "$(dirname "$0")/lib.sh"
export=$work/export
mkdir -p "$export"
seed=$((RANDOM * 32768 + RANDOM))
echo "seed $seed"

# run NAME FAULTS COUNTER...: each counter must have counted something.
run() {
    local name=$1 faults=$2 counter
    shift 2
    "$BIN/rpcrdma-stress" --serve "$export" --seed "$seed" --seconds "$seconds" --connections 4 --depth 8 --file-size 512K \
        --tolerate-loss $hard --faults "$faults" --json >"$work/$name" 2>"$work/$name.err" ||
        { cat "$work/$name" "$work/$name.err"; fail "rpcrdma-stress --seed $seed --faults $faults"; }
    cat "$work/$name"
    grep -q '"ok":true' "$work/$name" || fail "no result of $name"
    for counter in "$@"; do
        grep -Eq "\"$counter\":[1-9]" "$work/$name" || fail "$name: no $counter"
    done
    [ -z "$(ls -A "$export")" ] || fail "$name left something behind: $(ls -A "$export")"
}
hard=
run link loss=1%,dup=1%,reorder=1%,corrupt=0.5% lost duplicated reordered corrupted
run slow delay=200us-1ms,late=2ms,reorder=0.5% delayed reordered
run ends rnr=200ms/5ms,qpkill=1s,cmdrop=10%,cmreject=10% rnr_refused queue_pairs_killed
run server kill=2s,stop=1s/300ms server_kills server_stops
# A client that recovers by itself: no connection is lost, whatever happens.
hard=--hard
run hard kill=2s,qpkill=700ms,rnr=300ms/5ms,loss=0.2%,cmdrop=5%,cmreject=5% server_kills queue_pairs_killed reconnects
grep -q '"lost":0,"connects":' "$work/hard" || fail "a hard client lost a connection"

# Refused, with what would do.
status=0
"$BIN/rpcrdma-stress" --serve "$export" --faults loss=lots 2>"$work/err" || status=$?
[ $status = 2 ] || fail "exit status $status for a wrong --faults"
grep -q "'loss=lots': loss= wants a chance such as 1%" "$work/err" || fail "$(cat "$work/err")"
status=0
"$BIN/rpcrdma-stress" --dir nfs://127.0.0.1/x --faults kill=1s 2>"$work/err" || status=$?
[ $status = 2 ] || fail "exit status $status for kill= without --serve"
grep -q -- --serve "$work/err" || fail "$(cat "$work/err")"
echo ok
