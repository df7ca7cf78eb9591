#!/usr/bin/env bash
# The interop matrix, inside the guest: guest.sh BIN [ROW...]. One line for each check in /out/results; exit status 1 when one
# of them failed.
#
#  row  client                                server                              over
#   1   nfsrdma                               nfsrdmad                            rdma-core on rxe
#   2   nfsrdma                               Linux nfsd                          rdma-core on rxe
#   3   Linux mount                           nfsrdmad                            rdma-core on rxe
#   4   nfsrdma on softroce (peer)            Linux nfsd on rxe                   RoCEv2 on the wire
#   5   Linux mount on rxe                    nfsrdmad on softroce (peer)         RoCEv2 on the wire
#   6   rping, rpcrdma-ping                   each other                          RoCEv2 on the wire
#   7   nfsrdma on softroce (peer)            nfsrdmad on rdma-core               RoCEv2 on the wire
#   8   rpcrdma-stress                        nfsrdmad                            rdma-core on rxe
#   9   rpcrdma-stress                        Linux nfsd on ext4                  rdma-core on rxe
#  10   Linux mount on rxe, 32 MiB in flight  nfsrdmad on softroce (peer)         RoCEv2 on the wire
#  11   mount.nfsrdma on rdma-core, softroce  Linux nfsd on rxe                   rdma-core on rxe, the wire
#  12   examples/tirpc on rdma-core           examples/tirpc on rdma-core         rdma-core on rxe, TCP
#  13   examples/cxx on rdma-core, softroce   examples/cxx on rdma-core           rdma-core on rxe, the wire
BIN=$1
OUT=/out
shift
rows=("$@")
[ ${#rows[@]} -gt 0 ] || rows=(6 4 5 3 1 2 7 12 13 8 9 10)
here=$(dirname "$0")
source "$here/lib.sh"
source "$here/tool_checks.sh"
source "$here/mount_checks.sh"
source "$here/fuse_checks.sh"
source "$here/example_checks.sh"

# Linux's device of the programs, where this build has it.
has_rdma_core() { "$BIN/nfsrdma" --help | grep -q rdmacore; }
on_softroce() { # URL STRESSED OPTION...: our client in the namespace
    client=(ip netns exec peer "$BIN/nfsrdma" --bind 10.9.0.2:4791 "${@:3}") url=$1 stressed=$2
    stress=(ip netns exec peer "$BIN/rpcrdma-stress" --bind 10.9.0.2:4791 "${@:3}")
    doctor=(ip netns exec peer "$BIN/rpcrdma-doctor" --device softroce --bind 10.9.0.2 "$1")
}
on_rxe() { # URL STRESSED OPTION...: our client on the kernel's device
    client=("$BIN/nfsrdma" --device rdmacore:rxe0 "${@:3}") url=$1 stressed=$2
    stress=("$BIN/rpcrdma-stress" --device rdmacore:rxe0 "${@:3}")
    doctor=("$BIN/rpcrdma-doctor" --device rdmacore:rxe0 "$1")
}
flight=64  # calls on the wire at once

# Neither says when it listens, and both serve one client: on a slow machine the one that goes first is asked again.
tries() { # COMMAND...
    local pause
    for pause in 1.5 4; do ! "$@" "$pause" || return 0; done
    "$@" 10
}
rpings() { # SIZE WAIT: rping on rxe pings us
    local pid status=0
    ip netns exec peer timeout 30 "$BIN/rpcrdma-ping" -s -a 10.9.0.2 &
    pid=$!
    sleep "$2"
    timeout 30 rping -c -a 10.9.0.2 -C 20 -S "$1" -V -v >"$scratch/rping" || status=$?
    tail -n 2 "$scratch/rping"
    [ "$status" = 0 ] || { kill "$pid" 2>/dev/null; }
    wait "$pid" || { echo "rping ended with status $status, rpcrdma-ping with $?"; return 1; }
    return "$status"
}
pings_rping() { # SIZE WAIT
    local pid status=0
    timeout 30 rping -s -a 10.9.0.1 -C 20 -S "$1" -V &
    pid=$!
    sleep "$2"
    peer timeout 30 "$BIN/rpcrdma-ping" -c -a 10.9.0.1 -C 20 -S "$1" --bind 10.9.0.2:4791 || status=$?
    [ "$status" = 0 ] || kill "$pid" 2>/dev/null
    wait "$pid" || true  # it ends with an error whenever its client goes first
    return "$status"
}
row_6() {
    local size
    for size in 64 4096 65535; do
        check 6 "rping to rpcrdma-ping $size B" tries rpings "$size"
        check 6 "rpcrdma-ping to rping $size B" tries pings_rping "$size"
    done
    check 6 "clean disconnect" qps_are "$base_qps"
}
# captured ROW COMMAND: what goes over the wire meanwhile is kept for tshark, in $OUT/row-ROW.pcap.
captured() {
    # Each packet is one frame only when the sending interface leaves segmentation to the stack.
    peer ethtool -K v1 tx-udp-segmentation off
    dumpcap -q -i v0 -B 32 -w "$scratch/row.pcap" -f 'udp port 4791' 2>"$scratch/dumpcap.log" &
    local dump=$!
    for _ in $(seq 50); do ! grep -q File "$scratch/dumpcap.log" || break; sleep 0.2; done
    check "$1" "work for a capture" "$2"
    sleep 1
    kill -TERM "$dump"
    wait "$dump"
    cp "$scratch/row.pcap" "$OUT/row-$1.pcap"
    peer ethtool -K v1 tx-udp-segmentation on
}
row_4() {
    on_softroce nfs://10.9.0.1/srv/linux nfs://10.9.0.1/srv/ext4 --mountport 20048
    export=/srv/linux
    captured 4 tool_capture
    tool_row 4
}
row_2() {
    on_rxe nfs://10.9.0.1/srv/linux nfs://10.9.0.1/srv/ext4 --mountport 20048
    export=/srv/linux
    tool_row 2
    check 2 "counters of the Linux client" linux_shows_counters
}
serve_ours() { # ROW ADDRESS PREFIX... -- OPTION...
    local row=$1 address=$2
    shift 2
    export=/srv/ours mnt=/mnt/$row
    mountpoint -q "$export" || { mkdir -p "$export" && mount -t tmpfs -o size=512m none "$export"; }
    local -a how=("$@")
    if ! start_ours "nfsrdmad-$row" "${how[@]}" --export "$export=/export" --listen "$address:20050" --mountd-port 20051 \
        --state-dir "$scratch/state" --stats-json "$OUT/nfsrdmad-$row.json" >"$scratch/said"; then
        say "$row" "start of nfsrdmad" "FAILED: $(tail -n 1 "$scratch/said")"
        return 1
    fi
}
end_ours() { # ROW
    local status=0
    stop_ours || status=$?
    check "$1" "end of nfsrdmad" ended_well "$status"
}
mounted_at_ours() { # ROW ADDRESS
    address=$2 options=port=20050,mountport=20051
    mount_row "$1"
    check "$1" "clean disconnect" qps_are "$base_qps"
}
row_5() {
    serve_ours 5 10.9.0.2 ip netns exec peer -- || return
    address=10.9.0.2 options=port=20050,mountport=20051
    captured 5 mount_capture
    mounted_at_ours 5 10.9.0.2
    end_ours 5
}
row_3() {
    serve_ours 3 10.9.0.1 -- --device rdmacore:rxe0 || return
    mounted_at_ours 3 10.9.0.1
    server_is_killed 3 10.9.0.1 -- --device rdmacore:rxe0
    end_ours 3
}
row_1() {
    limit=240 check 1 "tests of the device" "$BIN/verbs_rdmacore_test" --gtest_filter='*Hw.*:*RpcHw*' --gtest_brief=1
    serve_ours 1 10.9.0.1 -- --device rdmacore:rxe0 || return
    on_rxe nfs://10.9.0.1:20050/export nfs://10.9.0.1:20050/export
    tool_row 1
    check 1 "no killed client is left" qps_are "$base_qps"
    end_ours 1
}
row_7() {
    serve_ours 7 10.9.0.1 -- --device rdmacore:rxe0 || return
    on_softroce nfs://10.9.0.1:20050/export nfs://10.9.0.1:20050/export
    tool_row 7
    end_ours 7
}
row_8() {
    serve_ours 8 10.9.0.1 -- --device rdmacore:rxe0 || return
    on_rxe nfs://10.9.0.1:20050/export nfs://10.9.0.1:20050/export
    stress_row 8
    end_ours 8
}
row_9() {
    on_rxe nfs://10.9.0.1/srv/ext4 nfs://10.9.0.1/srv/ext4 --mountport 20048
    stress_row 9
}
row_10() {
    serve_ours 10 10.9.0.2 ip netns exec peer -- || return
    address=10.9.0.2 options=port=20050,mountport=20051
    check 10 "mount" mount_it && limit=240 check 10 "deep queue" mount_is_deep
    check 10 "unmount" umount_it
    end_ours 10
}
row_11() {
    [ -x "$BIN/mount.nfsrdma" ] || { say 11 all "skipped: needs fuse: these programs have no mount"; return; }
    modprobe fuse
    mnt=/mnt/11
    enters=(nsenter --net=/run/netns/peer) options=bind=10.9.0.2:4791,mountport=20048 export=/srv/linux
    fuse_row 11 softroce
    check 11 "softroce: clean disconnect" qps_are "$base_qps"
    has_rdma_core || { say 11 rdma-core "skipped: needs rdma-core: these programs have no such device"; return; }
    enters=(env) options=device=rdmacore:rxe0,mountport=20048 export=/srv/ext4
    fuse_row 11 rdma-core
    check 11 "rdma-core: clean disconnect" qps_are "$base_qps"
}
# One rpcgen program over TCP and RDMA: the same results, with or without a table. On softroce it is a test of the tree's.
row_12() {
    [ -x "$BIN/depot_server" ] || { say 12 all "skipped: needs examples: they were not built"; return; }
    limit=120 check 12 "all procedures over RDMA as over TCP" depot_serves "" tcp rdma-core
    limit=120 check 12 "the same, with whole messages" depot_serves -n rdma-core
    check 12 "clean disconnect" qps_are "$base_qps"
}
depot_serves() { # OPTION CLIENT...: what TCP gave stays in $scratch/depot.tcp
    local option=$1 server tcp rdma client from took=
    shift
    # shellcheck disable=SC2086
    "$BIN/depot_server" -d rdmacore:rxe0 $option 10.9.0.1 0 0 >"$scratch/depot" 2>&1 &
    server=$!
    for _ in $(seq 150); do ! grep -q '^serving' "$scratch/depot" && kill -0 "$server" || break; sleep 0.2; done
    read -r tcp rdma < <(sed -n 's/^serving at TCP port \(.*\) and RDMA port \(.*\)/\1 \2/p' "$scratch/depot") ||
        fail "depot_server: $(tail -n 1 "$scratch/depot")"
    for client in "$@"; do
        from=$(now_ms)
        "depot_by_$client" >"$scratch/depot.$client" 2>"$scratch/depot.stats" || fail "$client: $(tail -n 1 "$scratch/depot.stats")"
        cmp "$scratch/depot.$client" "$scratch/depot.tcp" || fail "$client: $(diff "$scratch/depot.$client" "$scratch/depot.tcp" | tail -n 1)"
        took+="$client $((($(now_ms) - from + 50) / 100))00 ms, "
    done
    kill "$server"
    wait "$server" || true
    echo "note: ${took}$(tail -n 1 "$scratch/depot.stats")"
}
depot_by_tcp() { "$BIN/nfsrdma_tirpc_example" tcp 10.9.0.1 "$tcp" 64; }
# shellcheck disable=SC2086
depot_by_rdma-core() { "$BIN/nfsrdma_tirpc_example" -d rdmacore:rxe0 $option rdma 10.9.0.1 "$rdma" 64; }
stress_row() { # ROW
    limit=170 check "$1" "stress" tool_stress "$1" "${NR_GUEST_STRESS_SECONDS:-20}"
    check "$1" "clean disconnect" qps_are "$base_qps"
}
# Our server is killed in the middle of writes and comes again: the Linux client goes on, and no byte is lost.
server_is_killed() { # ROW ADDRESS PREFIX... -- OPTION...
    check "$1" "mount to kill the server" mount_it || return
    (for i in 1 2 3 4; do cp "$scratch/files/16MiB+5" "$mnt/survivor.$i" || exit 1; done; sync -f "$mnt") &
    local copying=$!
    sleep 1
    kill -9 "$server_pid"
    wait "$server_pid" 2>/dev/null
    sleep 1
    serve_ours "$@" || return
    limit=200 check "$1" "server killed under load" survives "$copying"
    check "$1" "unmount after that" umount_it
}
survives() { # PID
    tail --pid="$1" -f /dev/null
    local i
    for i in 1 2 3 4; do cmp "$scratch/files/16MiB+5" "$export/survivor.$i" || fail "file $i differs"; done
    rm "$export"/survivor.*
}

: >"$OUT/results"
limit=120 check 0 "fixtures" python3 "$here/fixtures.py" "$scratch"
start_nfsd >>"$OUT/log" 2>&1 || say 0 "start of nfsd" "FAILED: $(tail -n 1 "$OUT/log")"
last_start=${NR_GUEST_LAST_START:-640}  # seconds from the start: a row takes 180 on a machine that has other work
for row in "${rows[@]}"; do
    [ $SECONDS -lt "$last_start" ] || { say "$row" all "skipped: needs time: $SECONDS s are over, a row may take 180"; continue; }
    case $row in
        1 | 2 | 3 | 7 | 8 | 9 | 12 | 13) has_rdma_core || { say "$row" all "skipped: needs rdma-core: these programs have no such device"; continue; } ;;
    esac
    from=$SECONDS
    # Linux's server keeps the connection of a client that was killed while it waited for nothing from it.
    base_qps=$(qps)
    "row_$row"
    say "$row" time "ok ($((SECONDS - from)) s)"
done
say 0 "kernel" "$(if dmesg | grep -Eq 'BUG:|Oops|general protection|WARNING:'; then
    dmesg >"$OUT/dmesg"
    echo "FAILED: $(grep -E 'BUG:|Oops|general protection|WARNING:' "$OUT/dmesg" | head -n 1)"
else echo ok; fi)"
! grep -q ' FAILED: ' "$OUT/results"
