# rpcrdma-bench tirpc runs, each row alone too: bench_tirpc.sh BIN. How fast it is is not looked at.
BIN=$1
source "$(dirname "$0")/lib.sh"
timeout 100 "$BIN/rpcrdma-bench" tirpc --smoke >"$work/rows" 2>"$work/err" || { cat "$work/err" >&2; fail "status $?"; }
for row in null 64k 1m 64k_whole 1m_whole 64k_zero_copy 1m_zero_copy; do
    grep -Eq "^tirpc_${row}_vs_tcp [0-9]+\.[0-9]+ " "$work/rows" || { cat "$work/rows" >&2; fail "no row $row"; }
done
[ "$(wc -l <"$work/rows")" = 7 ] || fail "other rows"
timeout 100 "$BIN/rpcrdma-bench" tirpc --smoke --json --only tirpc_null_vs_tcp >"$work/rows"
python3 -c '
import json, sys
row, = map(json.loads, open(sys.argv[1]))
assert row["name"] == "tirpc_null_vs_tcp" and row["value"] > 0, row' "$work/rows" || fail "JSON"
