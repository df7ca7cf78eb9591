#!/usr/bin/env bash
# What is refused is named, with the identity that was sent: tool_denied.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "root: acts as another user"
chmod 0755 "$work"
setpriv --reuid=61001 --regid=61002 --clear-groups test -x "$BIN/nfsrdma" || skip "root: the programs are hidden from other users"
host=$(address)
mkdir "$work/export" "$work/export/private"
chmod 0700 "$work/export/private"
echo secret >"$work/export/private/file"
echo secret >"$work/export/file"
chmod 0600 "$work/export/file"
install -d -m 0755 -o 61001 "$work/export/own" "$work/local"
start_server server --export "$work/export:rw" --listen "$host"
url=nfs://$host$work/export
tool() { (cd "$work/local" && timeout 60 setpriv --reuid=61001 --regid=61002 --clear-groups "$BIN/nfsrdma" "$@"); }
denied() {
    local status=0
    tool "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = 1 ] || fail "$*: status $status"
    grep -q 'made as uid 61001, gid 61002' "$work/out" || fail "$*: $(cat "$work/out")"
}
denied ls "$url/private"
denied cat "$url/file"
denied get "$url/file" "$work/local/file"
[ ! -e "$work/local/file" ] || fail "a file of which nothing came was left"
denied put /etc/hostname "$url/new"
denied rm "$url/file"
denied chmod 777 "$url/file"
denied mkdir "$url/d"
# The rest of a tree is copied, the failure is named, and what is local stays as it was.
mkdir "$work/export/tree"
echo a >"$work/export/tree/a"
echo b >"$work/export/tree/b"
chmod 0600 "$work/export/tree/a"
denied get -r "$url/tree" "$work/local/tree"
[ "$(cat "$work/local/tree/b")" = b ] && [ ! -e "$work/local/tree/a" ] || fail "the rest of a tree"
tool put "$work/local/tree/b" "$url/own/b"
[ "$(stat -c %u:%g "$work/export/own/b")" = 61001:61002 ] || fail "owner"
tool chown :61002 "$url/own/b" || fail "chown to the own group"
denied chown 0 "$url/own/b"
stop_server
echo ok
