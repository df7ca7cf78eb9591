#!/usr/bin/env bash
# What a service manager sees of nfsrdmad: readiness, reload, end and exit status: service.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export"
echo "$work/export *(rw)" >"$work/exports"

# The manager: a datagram socket; what comes is one line of the file `told`.
python3 - "$work/notify" "$work/told" <<'END' &
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(sys.argv[2], "w") as told:
    manager.bind(sys.argv[1])
    manager.settimeout(60)
    while True:
        text = manager.recv(4096).decode()
        print(text.replace("\n", "|"), file=told, flush=True)
        if text.startswith("STOPPING=1"):
            break
END
manager=$!
pids+=("$manager")
for _ in $(seq 1200); do [ ! -S "$work/notify" ] || break; sleep 0.05; done
told() { # NUMBER PATTERN: that datagram is there, within a minute, and fits
    for _ in $(seq 1200); do
        [ "$(wc -l <"$work/told")" -lt "$1" ] || break
        sleep 0.05
    done
    sed -n "$1p" "$work/told" | grep -q -- "$2" || { cat "$work/told" >&2; fail "message $1 is not '$2'"; }
}

export NOTIFY_SOCKET=$work/notify
start_server server --exports-file "$work/exports" --listen "$host"
unset NOTIFY_SOCKET
told 1 "^READY=1|STATUS=serving $work/export (\* rw) on $host:20049"
timeout 60 "$BIN/nfsrdma" ls "nfs://$host$work/export" >/dev/null || fail "it is not ready when it says so"
kill -HUP "$server_pid"
told 2 '^RELOADING=1|MONOTONIC_USEC=[0-9]*|$'
told 3 '^READY=1|STATUS=serving'
echo "$work/export @group" >"$work/exports"
kill -HUP "$server_pid"
told 4 '^RELOADING=1|'
told 5 '^READY=1|STATUS=serving'
start=$(date +%s)
stop_server
[ $(($(date +%s) - start)) -le 5 ] || fail "the end took more than 5 s"
told 6 '^STOPPING=1|'
wait "$manager" || fail "the manager was not told of the end"
# A second server at the same address fails at once, and says why.
start_server server --export "$work/export" --listen "$host"
got=0
timeout 60 "$BIN/nfsrdmad" --export "$work/export" --listen "$host" >"$work/out" 2>&1 || got=$?
[ "$got" = 1 ] || fail "an address in use gives status $got, not 1"
stop_server
echo ok
