#!/usr/bin/env bash
# What the options about handles refuse, and what they leave behind: handles.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
mkdir "$work/export"
host=$(address)
refused() {
    local why=$1 status=0
    shift
    timeout 60 "$BIN/nfsrdmad" --export "$work/export" --listen "$host" "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = 1 ] || { cat "$work/out"; fail "exit status $status with $*"; }
    grep -q "$why" "$work/out" || { cat "$work/out"; fail "did not say '$why' with $*"; }
}
head -c 32 /dev/urandom >"$work/key"
chmod 0640 "$work/key"
refused "others may read" --handle-key "$work/key"
chmod 0600 "$work/key"
head -c 31 /dev/urandom >"$work/short"
chmod 0600 "$work/short"
refused "not 32 bytes" --handle-key "$work/short"
refused "No such file" --handle-key "$work/none/key"
refused "Not a directory" --state-dir "$work/key"

start_server first --export "$work/export" --listen "$host" --state-dir "$work/state"
[ "$(stat -c %a "$work/state/handle-key")" = 600 ] || fail "mode of the key"
[ "$(stat -c %s "$work/state/handle-key")" = 32 ] || fail "size of the key"
key=$(sha256sum <"$work/state/handle-key")
stop_server
start_server second --export "$work/export" --listen "$host" --state-dir "$work/state"
[ "$key" = "$(sha256sum <"$work/state/handle-key")" ] || fail "another key after a restart"
stop_server
echo ok
