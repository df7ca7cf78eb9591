# The example of an own RPC program: server and client by softroce, blobs of several sizes.
BIN=$1
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/example_lib.sh"

a=$(address)
start_example rpc_server "$a"
for bytes in 0 1 3 2047 2048 4096 65537 1048576; do
    timeout 60 "$BIN/example_rpc_client" "$a" softroce "$bytes" >"$work/out" 2>&1 || fail "$bytes bytes: $(cat "$work/out")"
    grep -qx equal "$work/out" || fail "$bytes bytes: $(cat "$work/out")"
done
grep -q 'got 1048576, of which 1048576 by RDMA' "$work/out" || fail "not by RDMA: $(cat "$work/out")"
kill -TERM "$example_pid"
wait "$example_pid" || fail "the server ended with status $?"
grep -q '^1 blobs, 16 calls' "$work/rpc_server.log" || fail "the server says: $(cat "$work/rpc_server.log")"

status=0
timeout 60 "$BIN/example_rpc_client" "$a:9" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "a server that is not there: status $status, $(cat "$work/err")"
status=0
timeout 60 "$BIN/example_rpc_client" nowhere 2>"$work/err" || status=$?
[ "$status" = 1 ] && grep -q 'SERVER.*DEVICE' "$work/err" || fail "usage: status $status"
