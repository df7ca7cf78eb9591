#!/usr/bin/env bash
# B104: a server that is full says so, and the tool ends in seconds: tool_full.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "root: a small file system is mounted"
mkdir "$work/export"
mount -t tmpfs -o size=2m none "$work/export" 2>/dev/null || skip "root: mounting is refused"
trap 'cleanup_mount' EXIT
cleanup_mount() { umount -l "$work/export" 2>/dev/null || true; cleanup; }
host=$(address)
start_server server --export "$work/export" --listen "$host"
url=nfs://$host$work/export
head -c 7340032 /dev/urandom >"$work/seven"
begin=$(date +%s%N)
status=0
timeout 60 "$BIN/nfsrdma" put "$work/seven" "$url/seven" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "B104: status $status"
[ $((($(date +%s%N) - begin) / 1000000)) -lt 30000 ] || fail "B104: it took too long"
grep -q 'no space' "$work/err" || fail "B104: $(cat "$work/err")"
grep -q 'put --continue' "$work/err" || fail "B104: what is left is not told: $(cat "$work/err")"
[ -s "$work/export/seven" ] || fail "B104: the partial file is not there"
# Standard input as well.
status=0
timeout 60 "$BIN/nfsrdma" put - "$url/stream" <"$work/seven" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "B104: stream: status $status"
# A tree is given up; it would be the same with each file.
mkdir "$work/tree"
for i in $(seq 200); do head -c 40000 /dev/urandom >"$work/tree/$i"; done
status=0
timeout 60 "$BIN/nfsrdma" put -r "$work/tree" "$url/tree" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "B104: tree: status $status"
[ "$(grep -c 'no space' "$work/err")" -lt 40 ] || fail "B104: a tree was not given up"
# So does a local disk: no file of a tree is begun in vain, and nothing but what fits is left.
rm -rf "$work/export"/*
mkdir "$work/many" "$work/export/here"
for i in $(seq -w 100); do head -c 100000 /dev/urandom >"$work/many/$i"; done
stop_server
host=$(address)
start_server other --export "$work/many" --listen "$host"
status=0
timeout 60 "$BIN/nfsrdma" get -r "nfs://$host$work/many" "$work/export/here" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "a full local disk: status $status"
grep -q 'No space left' "$work/err" || fail "a full local disk: $(cat "$work/err")"
[ "$(wc -l <"$work/err")" -lt 60 ] || fail "a tree was not given up"
cmp "$work/many/001" "$work/export/here/many/001"
stop_server
echo ok
