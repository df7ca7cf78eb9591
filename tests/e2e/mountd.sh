#!/usr/bin/env bash
# MOUNT over TCP and UDP with Debian's showmount and a real rpcbind, in a network namespace of their own, and the
# counters by HTTP: mountd.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
own_rpcbind "${2:-}"

mkdir -p "$work/one" "$work/two" && echo text >"$work/one/file"
start_server mountd --export "$work/one" --export "$work/two" --listen 127.0.0.1 --rpcbind --metrics 127.0.0.1
rpcinfo >"$work/rpcinfo"
for row in '100003 *3 *rdma *127.0.0.1.78.81' '100005 *3 *rdma *127.0.0.1.78.81' \
    '100005 *3 *tcp *127.0.0.1.78.80' '100005 *3 *udp *127.0.0.1.78.80'; do
    grep -Eq "$row" "$work/rpcinfo" || { cat "$work/rpcinfo" >&2; fail "rpcbind does not know $row"; }
done
timeout 60 rpcinfo -t 127.0.0.1 100005 3 >/dev/null || fail "NULL by TCP"
timeout 60 rpcinfo -u 127.0.0.1 100005 3 >/dev/null || fail "NULL by UDP"
for program in 100003 100021 100227; do
    if timeout 60 rpcinfo -a 127.0.0.1.78.80 -T tcp "$program" 3 >"$work/other" 2>&1; then fail "program $program is served"; fi
    grep -q 'unavailable' "$work/other" || { cat "$work/other" >&2; fail "program $program is not unavailable"; }
done

timeout 60 showmount --no-headers -e 127.0.0.1 >"$work/exports" || fail "showmount -e"
for name in one two; do grep -q "^$work/$name " "$work/exports" || { cat "$work/exports"; fail "no $name"; }; done
"$BIN/nfsrdma" cat "nfs://127.0.0.1$work/one/file" | grep -q text || fail "the file is not served"
for way in "--mountproto tcp" "--mountproto udp" "--mountport 20048"; do
    # shellcheck disable=SC2086
    "$BIN/nfsrdma" $way cat "nfs://127.0.0.1$work/one/file" | grep -q text || fail "nfsrdma $way cat"
    # shellcheck disable=SC2086
    "$BIN/nfsrdma" $way showmount 127.0.0.1 | grep -q "^$work/two " || fail "nfsrdma $way showmount"
done
status=0
"$BIN/nfsrdma" --mountproto rdma --mountport 20048 ls "nfs://127.0.0.1$work/one" 2>"$work/trouble" || status=$?
if [ "$status" != 2 ] || ! grep -q 'no meaning with --mountproto rdma' "$work/trouble"; then
    cat "$work/trouble" >&2
    fail "a port of mountd for MOUNT over RDMA: status $status"
fi
if "$BIN/nfsrdma" --mountport 9 ls "nfs://127.0.0.1$work/one" 2>"$work/trouble"; then fail "a mountd at port 9"; fi
grep -q 'mountd at 127.0.0.1:9 over TCP and UDP: connection refused' "$work/trouble" ||
    { cat "$work/trouble" >&2; fail "no word about the wrong port"; }
timeout 60 showmount --no-headers -a 127.0.0.1 >"$work/all" || fail "showmount -a"
timeout 60 showmount --no-headers -d 127.0.0.1 >"$work/directories" || fail "showmount -d"

"$BIN/nfsrdma" stats 127.0.0.1 >"$work/stats" || fail "nfsrdma stats"
grep -q '^nfs READ ' "$work/stats" || { cat "$work/stats"; fail "stats do not tell of READ"; }
"$BIN/nfsrdma" --json stats 127.0.0.1:9949 | grep -q '"nfs.READ":{"calls":' || fail "nfsrdma stats --json"
stop_server
rpcinfo >"$work/rpcinfo"
! grep -Eq '100003|100005' "$work/rpcinfo" || { cat "$work/rpcinfo"; fail "rpcbind still knows the server"; }

kill "$rpcbind_pid" && wait "$rpcbind_pid" || true
rm -f /run/rpcbind.sock
start_server alone --export "$work/one" --listen 127.0.0.1 --rpcbind
grep -q 'not registered with rpcbind' "$server_log" || fail "no word about the missing rpcbind"
"$BIN/nfsrdma" cat "nfs://127.0.0.1$work/one/file" | grep -q text || fail "the file is not served without rpcbind"
if "$BIN/nfsrdma" --mountproto tcp ls "nfs://127.0.0.1$work/one" 2>"$work/trouble"; then fail "MOUNT without rpcbind"; fi
grep -q 'start rpcbind' "$work/trouble" || { cat "$work/trouble" >&2; fail "no word about the missing rpcbind"; }
stop_server
echo ok
