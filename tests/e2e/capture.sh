#!/usr/bin/env bash
# The frames of a copy between two network namespaces, judged by tshark: capture.sh BIN. Needs no privilege where user namespaces
# are allowed.
if [ "${2:-}" != inside ]; then
    command -v tshark >/dev/null && command -v dumpcap >/dev/null || { echo "needs tshark: not installed"; exit 77; }
    command -v ethtool >/dev/null || { echo "needs tshark: ethtool is not installed"; exit 77; }
    unshare -Urn true 2>/dev/null || { echo "needs root: network namespaces are refused to this user"; exit 77; }
    exec unshare -Urn bash "$0" "$1" inside
fi
BIN=$1
source "$(dirname "$0")/lib.sh"

ip link set lo up
unshare -n sleep 120 &
other=$!
pids+=("$other")
for _ in $(seq 1200); do
    [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ] || break
    sleep 0.05
done
there() { nsenter -t "$other" -n "$@"; }
ip link add v0 type veth peer name v1 netns "$other"
ip addr add 10.9.1.1/24 dev v0
ip link set v0 mtu 9000 up
there ip addr add 10.9.1.2/24 dev v1
there ip link set v1 mtu 9000 up
there ip link set lo up
# Each packet is one frame only when the sending interface leaves segmentation to the stack.
ethtool -K v0 tx-udp-segmentation off
there ethtool -K v1 tx-udp-segmentation off
dumpcap -q -i v0 -B 64 -w "$work/frames.pcap" -f 'udp port 4791' 2>"$work/dumpcap.log" &
dump=$!
pids+=("$dump")
for _ in $(seq 1200); do
    grep -q File "$work/dumpcap.log" && break
    sleep 0.05
done

# tshark takes a payload that begins like an EtherType for that protocol: one random byte of 0x90 in a last packet is LOOP to
# it. Digits are none.
filler=$work/digits
seq 2000000 | tr -d "\n" >"$filler"
mkdir "$work/export"
make_tree "$work/tree"
start_server server --export "$work/export" --listen 10.9.1.1
url=nfs://10.9.1.1$work/export
there "$BIN/nfsrdma" put -r --bind 10.9.1.2:4791 "$work/tree" "$url/tree"
there "$BIN/nfsrdma" get -r --bind 10.9.1.2:4791 "$url/tree" "$work/back"
same_tree "$work/tree" "$work/back"
there "$BIN/nfsrdma" ls -l --bind 10.9.1.2:4791 "$url/tree/sub" >/dev/null
stop_server
before=-1
until after=$(stat -c %s "$work/frames.pcap") && [ "$after" = "$before" ]; do
    before=$after
    sleep 1
done
kill -INT "$dump"
wait "$dump" || true

frames() { tshark -r "$work/frames.pcap" -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l; }
total=$(frames udp)
[ "$total" -gt 1000 ] || fail "only $total frames were captured"
[ "$(frames 'udp && !infiniband')" = 0 ] || fail "frames that are not RoCEv2"
for kind in 0x0010 0x0013 0x0014 0x0015 0x0016; do
    [ "$(frames "infiniband.mad.attributeid == $kind")" -gt 0 ] || fail "no CM message $kind"
done
[ "$(frames rpcordma)" -gt 100 ] || fail "no RPC-over-RDMA"
for procedure in 1 3 6 7 8 9 17; do
    [ "$(frames "nfs.procedure_v3 == $procedure")" -gt 0 ] || fail "no NFSv3 procedure $procedure"
done
# tshark 4.0 marks READ replies whose data went by RDMA WRITE, also in Linux's own traffic; nothing else may be marked.
bad=$(tshark -r "$work/frames.pcap" -Y '_ws.malformed && !(nfs.procedure_v3 == 6 && rpc.msgtyp == 1)' 2>/dev/null | head -n 5)
[ -z "$bad" ] || fail "malformed: $bad"
echo "ok: $total frames, $(frames rpcordma) RPC-over-RDMA, $(frames nfs) NFS, $(frames _ws.malformed) READ replies that tshark cannot follow"
