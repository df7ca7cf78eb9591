# The example of a block protocol without RPC, by softroce: one key a request, freed by the target's answer.
BIN=$1
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/example_lib.sh"

a=$(address)
start_example block_target "$a"
timeout 100 "$BIN/example_block_initiator" "$a" >"$work/out" 2>&1 || fail "the initiator: $(cat "$work/out")"
grep -qx '128 requests, 128 keys, 128 freed by the target, 0 by us: equal' "$work/out" || fail "$(cat "$work/out")"
wait "$example_pid" || fail "the target ended with status $?: $(cat "$work/block_target.log")"
grep -q '^16777216 bytes pulled, 16777216 pushed, 128 answers freed a key' "$work/block_target.log" ||
    fail "the target says: $(cat "$work/block_target.log")"

status=0
timeout 60 "$BIN/example_block_initiator" "$a:9" >/dev/null 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "a target that is not there: status $status, $(cat "$work/err")"
