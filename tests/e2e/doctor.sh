#!/usr/bin/env bash
# rpcrdma-doctor, and --device, on softroce: doctor.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
doctor() { timeout 60 "$BIN/rpcrdma-doctor" "$@" >"$work/out" 2>"$work/err"; }
says() { grep -Eq -- "$1" "$work/out" || { cat "$work/out" "$work/err" >&2; fail "rpcrdma-doctor does not say: $1"; }; }
json() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), d' "$work/out" "$1" || fail "JSON: $1"; }

doctor || fail "of this machine: status $?"
says '^  127\.0\.0\.1 .*MTU [0-9]+: packets of [0-9]+ bytes'
says '^RDMA devices of the kernel'
says '^ok +softroce can be used'
doctor softroce || fail "of softroce: status $?"
doctor --json softroce || fail "--json softroce: status $?"
json 'd["failure"] is False and any(a["address"] == "127.0.0.1" and a["packet_bytes"] >= 256 for a in d["machine"]["softroce"])'

mkdir "$work/export" && echo text >"$work/export/file"
start_server server --export "$work/export" --listen "$host" --device auto
grep -q -- '--device auto takes softroce: ' "$server_log" || fail "nfsrdmad does not say what auto takes"
doctor "$host" || { cat "$work/out" >&2; fail "of the server: status $?"; }
says "^$host:20049 by softroce: "
says 'private data \(RFC 8797\): sends 4096 bytes inline, receives 4096'
says 'NFS version 3 NULL: 10 calls'
says 'MOUNT version 3: over RDMA'
doctor --json --device softroce -c 3 "nfs://$host$work/export" || fail "--json: status $?"
json 'd["peer"]["connected"] and d["peer"]["nulls"] == 3 and d["peer"]["inline_send"] == 4096 and d["peer"]["mount"] == "rdma"'

status=0
doctor "$host:1" || status=$?
[ "$status" = 1 ] || fail "a port where nobody listens: status $status"
says 'nobody listens at that port'
"$BIN/nfsrdma" --device auto cat "nfs://$host$work/export/file" >"$work/out" 2>"$work/err" || fail "nfsrdma --device auto"
says '^text$'
grep -q '^nfsrdma: softroce: ' "$work/err" || fail "nfsrdma does not say what auto takes"
[ "$(wc -l <"$work/err")" = 1 ] || { cat "$work/err"; fail "more than one line"; }
if "$BIN/nfsrdma" --device rdmacore:no_such_device ls "nfs://$host$work/export" 2>"$work/out"; then fail "a device that is not there"; fi
says 'cannot use rdmacore:no_such_device: .*--device softroce'
stop_server
status=0
doctor --timeout 0.5 "$host" || status=$?
[ "$status" = 1 ] || fail "a host that does not answer: status $status"
says 'does not answer by RDMA'
status=0
doctor --device nonsense "$host" || status=$?
[ "$status" = 2 ] || fail "--device nonsense: status $status"
echo ok
