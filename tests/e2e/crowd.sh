#!/usr/bin/env bash
# 256 connections at once from 8 processes, each doing mixed work: all complete, an idle one costs the
# server less than 256 KiB, none starves: crowd.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
mkdir "$work/export"
host=$(address)
start_server crowd --export "$work/export" --listen "$host" --loops 2
"$BIN/nfsrdma_crowd" "$host:20049" "$work/export" "$server_pid" 8 256 5 >"$work/result" ||
    { cat "$work/result"; fail "a call failed"; }
cat "$work/result"
value() { sed "s/.*\"$1\":\([0-9-]*\).*/\1/" "$work/result"; }
[ "$(value connections)" = 256 ] || fail "not all connections reported"
[ "$(value idle_bytes_per_connection)" -lt 262144 ] || fail "an idle connection costs 256 KiB or more"
[ $((3 * $(value slowest))) -ge "$(value median)" ] || fail "a connection starved"
[ -z "$(ls -A "$work/export")" ] || fail "files were left behind"
stop_server
echo ok
