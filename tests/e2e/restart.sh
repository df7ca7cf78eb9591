#!/usr/bin/env bash
# The server is killed in the middle of 1,000 UNSTABLE writes and started again: handles from before
# work, COMMIT tells the new verifier: restart.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
run() {
    rm -rf "$work/$1"
    mkdir -p "$work/$1/export"
    timeout 100 "$BIN/nfsrdma_restart" "$BIN/nfsrdmad" "$work/$1" "$(address)" "$1" ||
        fail "$1"
    echo "$1: ok"
}
run state
run nothing
if [ "$(id -u)" = 0 ]; then
    run kernel
    run twins
else
    echo "note: without root, handles that the kernel opens are not tested"
fi
echo ok
