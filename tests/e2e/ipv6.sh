#!/usr/bin/env bash
# IPv6 from end to end: nfsrdmad on [::1], the tool by URL, Debian's showmount, rpcbind's netids and the counters, in a
# network namespace with an rpcbind of its own: ipv6.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
own_rpcbind "${2:-}"
[ -n "$(ip -6 address show dev lo)" ] || skip "root: a kernel with IPv6"

tool() { timeout 60 "$BIN/nfsrdma" "$@"; }
mkdir "$work/export" "$work/other"
make_tree "$work/tree"
cat >"$work/exports" <<END
$work/export ::1(rw,no_root_squash) 2001:db8::/32(ro)
$work/other  2001:db8::/32(rw)
END
start_server six --exports-file "$work/exports" --listen '[::1]:20050' --rpcbind --metrics '[::1]:9950'
grep -q '^nfsrdmad: serving .* on \[::1\]:20050 ' "$server_log" || { cat "$server_log"; fail "the line at start"; }
url="nfs://[::1]:20050$work/export"
tool put -r "$work/tree" "$url/tree"
same_tree "$work/tree" "$work/export/tree"
tool get -r "$url/tree" "$work/back" --verify
same_tree "$work/tree" "$work/back"
tool ls -l "$url/tree/sub" >"$work/list"
[ "$(grep -c . "$work/list")" = "$(ls -A "$work/tree/sub" | wc -l)" ] || { cat "$work/list"; fail "ls -l"; }
tool cat "$url/tree/with%20space%20and%20%C3%BCnicode" | grep -q text || fail "cat"
tool ping -c 3 '[::1]:20050' >/dev/null 2>&1 || tool ping 'nfs://[::1]:20050/' >/dev/null || fail "ping"
if tool ls "nfs://[::1]:20050$work/other" >"$work/out" 2>&1; then fail "an export for others was given to ::1"; fi
grep -qiE 'permission|acces' "$work/out" || { cat "$work/out"; fail "not for want of permission"; }
tool showmount -e '[::1]:20050' >"$work/out" || fail "nfsrdma showmount -e"
grep -q "^$work/export .*2001:db8::/32" "$work/out" || { cat "$work/out"; fail "nfsrdma showmount -e: no export"; }

# rpcbind: universal addresses are the address, and the port's two bytes.
rpcinfo >"$work/rpcinfo"
for row in '100003 *3 *rdma6 *::1\.78\.82' '100005 *3 *rdma6 *::1\.78\.82' \
    '100005 *3 *tcp6 *::1\.78\.80' '100005 *3 *udp6 *::1\.78\.80'; do
    grep -Eq "$row" "$work/rpcinfo" || { cat "$work/rpcinfo" >&2; fail "rpcbind does not know $row"; }
done
if grep -Eq '10000[35] *3 *(rdma|tcp|udp) ' "$work/rpcinfo"; then fail "registered for IPv4 as well"; fi
for netid in tcp6 udp6; do
    timeout 60 rpcinfo -a ::1.78.80 -T $netid 100005 3 >/dev/null || fail "NULL by $netid"
done
timeout 60 showmount --no-headers -e ::1 >"$work/out" || fail "showmount -e ::1"
grep -q "^$work/export " "$work/out" || { cat "$work/out"; fail "showmount: no export"; }
mkfifo "$work/slow"
tool put - "$url/slow" <"$work/slow" & # a connection that lives meanwhile
exec 9>"$work/slow"
for _ in $(seq 240); do
    tool stats '[::1]:9950' >"$work/out" || fail "nfsrdma stats"
    ! grep -q '^\[::1\]:' "$work/out" || break
    sleep 0.25
done
grep -q '^mount EXPORT ' "$work/out" && grep -q '^\[::1\]:' "$work/out" || { cat "$work/out"; fail "stats do not tell"; }
exec 9>&-
wait $! || fail "put from a pipe"
stop_server
rpcinfo >"$work/rpcinfo"
! grep -Eq '100003|100005' "$work/rpcinfo" || { cat "$work/rpcinfo"; fail "rpcbind still knows the server"; }

# Both families side by side, and a name that leads to an address.
start_server four --export "$work/export" --listen 127.0.0.1:20051
four=$server_pid
start_server again --exports-file "$work/exports" --listen '[::1]:20051'
tool put "$work/tree/sub/file-4097" "nfs://[::1]:20051$work/export/six"
tool cat "nfs://127.0.0.1:20051$work/export/six" | cmp - "$work/tree/sub/file-4097" || fail "by IPv4"
stop_server
server_pid=$four
stop_server
echo ok
