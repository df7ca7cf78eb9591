# examples/tirpc: one rpcgen program, one server for TCP and RDMA, and clients over each: the same results, with the table of what
# is placed by RDMA and without, over IPv4 and IPv6.
BIN=$1
source "$(dirname "$0")/lib.sh"
step=${NR_EXAMPLE_STEP:-16}

# start_depot NAME ARGUMENT...: until it serves; its ports are in tcp_port and rdma_port.
start_depot() {
    local log=$work/$1.server
    shift
    : >"$log"
    "$BIN/depot_server" "$@" >"$log" 2>&1 &
    depot_pid=$!
    pids+=("$depot_pid")
    wait_until_ready "$depot_pid" "$log" '^serving' depot_server
    read -r tcp_port rdma_port < <(sed -n 's/^serving at TCP port \(.*\) and RDMA port \(.*\)/\1 \2/p' "$log")
}
# run_client NAME ARGUMENT...: what comes back is in $work/NAME, and how it went in $work/NAME.stats.
run_client() {
    local name=$1
    shift
    timeout 300 "$BIN/nfsrdma_tirpc_example" "$@" "$step" >"$work/$name" 2>"$work/$name.stats" ||
        { status=$?; cat "$work/$name.stats" >&2; fail "$name: status $status"; }
}
same_results() { # NAME NAME
    cmp -s "$work/$1" "$work/$2" || { diff "$work/$1" "$work/$2" | head -n 20 >&2; fail "$1 and $2 differ"; }
}
# counts NAME: of one run's calls, as variables.
counts() { eval "$(sed -n 's/^calls /calls=/; s/ \([a-z_]*\) \([0-9]*\)/ \1=\2/gp' "$work/$1.stats" | tail -n 1)"; }
end_depot() {
    kill -0 "$depot_pid" 2>/dev/null || fail "depot_server ended meanwhile"
    kill -TERM "$depot_pid"
    wait "$depot_pid" || true
}

# each FAMILY ADDRESS SERVER_OPTION... -- CLIENT_OPTION...
each() {
    local family=$1 address=$2
    shift 2
    local -a server=() client=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do server+=("$1"); shift; done
    shift
    client=("$@")
    start_depot "$family.table" "${server[@]}" "$address" 0 0
    run_client "$family.tcp" tcp "$address" "$tcp_port"
    run_client "$family.table" "${client[@]}" rdma "$address" "$rdma_port"
    # A server has no need of what it knows more than its client.
    run_client "$family.plain" "${client[@]}" -n rdma "$address" "$rdma_port"
    end_depot
    start_depot "$family.whole" "${server[@]}" -n "$address" 0 0
    run_client "$family.whole" "${client[@]}" -n rdma "$address" "$rdma_port"
    end_depot
    same_results "$family.tcp" "$family.table"
    same_results "$family.tcp" "$family.plain"
    same_results "$family.tcp" "$family.whole"
    counts "$family.table"
    # One call has a string of 9000 bytes, of which the table knows nothing.
    [ "$read_chunk" -gt 20 ] && [ "$write_chunk" -gt 20 ] && [ "$long" = 1 ] ||
        { cat "$work/$family.table.stats" >&2; fail "$family: nothing was placed by RDMA"; }
    counts "$family.whole"
    [ "$read_chunk" = 0 ] && [ "$write_chunk" = 0 ] && [ "$long" -gt 20 ] && [ "$reply_chunk" -gt 20 ] ||
        { cat "$work/$family.whole.stats" >&2; fail "$family: no message went whole by RDMA"; }
}

a=$(address)
each v4 "$a" --
udp=$((RANDOM % 8000 + 20000))
each v6 ::1 -b "[::1]:$udp" -- -u "$udp"
same_results v4.tcp v6.tcp

# Both transports of one server at once, and by the example's own client.
start_depot both "$a" 0 0
depot() { timeout 60 "$BIN/depot_client" "$@"; }
head -c 3000000 /dev/urandom >"$work/file"
depot tcp "$a" "$tcp_port" put one "$work/file" || fail "put over TCP"
depot rdma "$a" "$rdma_port" put two "$work/file" || fail "put over RDMA"
depot rdma "$a" "$rdma_port" get one | cmp - "$work/file" || fail "get over RDMA"
depot tcp "$a" "$tcp_port" get two | cmp - "$work/file" || fail "get over TCP"
for way in "tcp $a $tcp_port" "rdma $a $rdma_port"; do
    # shellcheck disable=SC2086
    depot $way list >"$work/list" || fail "list over $way"
    [ "$(grep -Ec '^ 3000000 (one|two)$' "$work/list")" = 2 ] || { cat "$work/list" >&2; fail "list over $way"; }
done
depot rdma "$a" "$rdma_port" remove one || fail "remove over RDMA"
status=0
depot tcp "$a" "$tcp_port" get one 2>"$work/err" || status=$?
[ "$status" = 1 ] && grep -q 'there is no one' "$work/err" || fail "get of what is gone: $status"
status=0
depot rdma "$a" 9 list 2>"$work/err" || status=$?
[ "$status" = 1 ] && grep -q 'onnection refused' "$work/err" || { cat "$work/err" >&2; fail "where nobody listens: status $status"; }
end_depot
