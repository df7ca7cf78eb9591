#!/usr/bin/env bash
# A tree in and out through server and tool: copy.sh BIN [server options] [-- client options]
BIN=$1
shift
source "$(dirname "$0")/lib.sh"
server_options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do server_options+=("$1"); shift; done
[ $# -eq 0 ] || shift
client_options=("$@")

host=$(address)
mkdir "$work/export"
make_tree "$work/tree"
start_server server --export "$work/export" --listen "$host" "${server_options[@]}"
url=nfs://$host$work/export
"$BIN/nfsrdma" put -r "${client_options[@]}" "$work/tree" "$url/tree"
same_tree "$work/tree" "$work/export/tree"
"$BIN/nfsrdma" get -r "${client_options[@]}" "$url/tree" "$work/back"
same_tree "$work/tree" "$work/back"
[ "$(stat -c %a "$work/back/sub/file-1")" = 640 ] || fail "the mode of a file was lost"
[ "$(readlink "$work/back/sub/link")" = file-3 ] || fail "a symbolic link was lost"
"$BIN/nfsrdma" cat "${client_options[@]}" "$url/tree/sub/file-1048579" | cmp - "$work/tree/sub/file-1048579"
stop_server
echo ok
