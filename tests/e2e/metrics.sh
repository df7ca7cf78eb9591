#!/usr/bin/env bash
# What is counted: MOUNT over RDMA, TCP and UDP alike, and calls that left the loop: metrics.sh BIN
BIN=$1
export TMPDIR=/var/tmp # a file system that may wait for storage, most places
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export"
echo text >"$work/export/file"
start_server metrics --export "$work/export" --listen "$host" --mountd-port 0 --metrics "$host:9949" --stats-json "$work/stats"
port=$(sed -n 's/.*MOUNT over TCP and UDP at .*:\([0-9]*\)$/\1/p' "$server_log")
[ -n "$port" ] || { cat "$server_log" >&2; fail "no word of MOUNT's port"; }
tool() { timeout 60 "$BIN/nfsrdma" "$@"; }
count() { # NAME: of the whole, or calls of a procedure
    tool --json stats "$host" | grep -o "\"$1\":\({\"calls\":\)\?[0-9]*" | head -n 1 | grep -o '[0-9]*$' || echo 0
}
[ "$(count mount.EXPORT)" = 0 ] || fail "something was counted before"

# EXPORT by TCP three times, by UDP twice, each answered with success.
timeout 60 python3 - "$host" "$port" <<'END'
import socket, struct, sys
where = (sys.argv[1], int(sys.argv[2]))
def call(xid):
    return struct.pack(">10I", xid, 0, 2, 100005, 3, 5, 0, 0, 0, 0)
def check(answer, xid):
    assert struct.unpack(">6I", answer[:24]) == (xid, 1, 0, 0, 0, 0), answer
with socket.create_connection(where, 10) as tcp:
    for xid in (1, 2, 3):
        tcp.sendall(struct.pack(">I", 0x80000000 | 40) + call(xid))
        size = struct.unpack(">I", tcp.recv(4, socket.MSG_WAITALL))[0] & 0x7fffffff
        check(tcp.recv(size, socket.MSG_WAITALL), xid)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.settimeout(10)
    udp.connect(where)
    for xid in (4, 5):
        udp.send(call(xid))
        check(udp.recv(9000), xid)
END
[ "$(count mount.EXPORT)" = 5 ] || fail "$(count mount.EXPORT) calls of EXPORT, not 5"
tool showmount -e "$host" >/dev/null || fail "showmount"
[ "$(count mount.EXPORT)" = 6 ] || fail "over RDMA it is not counted with the others"
tool stats "$host" >"$work/text"
grep -q '^mount EXPORT  *6 ' "$work/text" || { cat "$work/text" >&2; fail "the table does not tell"; }

[ "$(tool cat "nfs://$host$work/export/file")" = text ] || fail "cat"
off=$(count rpc_off_loop_total)
all=$(count rpc_calls_total)
case $(stat -f -c %T "$work") in
tmpfs | ramfs) [ "$off" = 0 ] || fail "$off calls left the loop for what is in memory" ;;
*) [ "$off" -gt 0 ] && [ "$off" -lt "$all" ] || fail "$off of $all calls left the loop" ;;
esac
kill -USR1 "$server_pid"
for _ in $(seq 1200); do [ ! -s "$work/stats" ] || break; sleep 0.05; done
grep -q "\"off_loop\":$off[,}]" "$work/stats" || { cat "$work/stats" >&2; fail "the file does not tell of $off calls"; }
stop_server
echo ok
