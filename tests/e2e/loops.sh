#!/usr/bin/env bash
# One server with two loops behind one port, several clients at once, on IPv4 and IPv6: loops.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
mkdir "$work/export"
make_tree "$work/tree"
for host in "$(address)" '[::1]'; do
    if [ "$host" = '[::1]' ] && ! grep -q '^0*1 ' <(awk '{print $1" "}' /proc/net/if_inet6 2>/dev/null); then continue; fi
    start_server "server-${#host}" --export "$work/export" --listen "$host" --loops 2
    url=nfs://$host$work/export
    clients=()
    for i in 1 2 3 4; do
        "$BIN/nfsrdma" put -r "$work/tree" "$url/tree-$i" &
        clients+=($!)
    done
    for pid in "${clients[@]}"; do wait "$pid" || fail "a client failed on $host"; done
    for i in 1 2 3 4; do same_tree "$work/tree" "$work/export/tree-$i"; done
    stop_server
    rm -rf "$work/export" && mkdir "$work/export"
done
echo ok
