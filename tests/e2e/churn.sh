#!/usr/bin/env bash
# Clients that come and go, and clients that are killed in the middle of their work, leave nothing behind at the server:
# memory, descriptors, threads and connections are back where they were: churn.sh BIN [CONNECTS [KILLS]]
BIN=$1
connects=${2:-50}
kills=${3:-50}
source "$(dirname "$0")/lib.sh"
mkdir "$work/export"
head -c 33554432 /dev/urandom >"$work/export/big"
host=$(address)
# In little memory: its pools are all touched soon, and what leaks from the budget is soon missed.
start_server churn --export "$work/export" --listen "$host" --keepalive 2 --memory 64M --stats-json "$work/stats"
url=nfs://$host$work/export

connections() {
    rm -f "$work/stats"
    kill -USR1 "$server_pid"
    for _ in $(seq 600); do [ -s "$work/stats" ] && break; sleep 0.05; done
    sed 's/.*"connections":\([0-9]*\).*/\1/' "$work/stats"
}
alone() {
    for _ in $(seq 600); do [ "$(connections)" = 0 ] && return 0; sleep 0.1; done
    fail "connections of clients that are gone stay: $(connections)"
}
fds() { ls "/proc/$server_pid/fd" | wc -l; }
threads() { ls "/proc/$server_pid/task" | wc -l; }
rss() { awk '/^VmRSS/ {print $2}' "/proc/$server_pid/status"; }
come_and_go() {
    local i
    for i in $(seq "$1"); do "$BIN/nfsrdma" ls "$url" >/dev/null || fail "connect $i"; done
}
# Eight at a time.
kill_under_load() {
    local left=$1 i pid
    while [ "$left" -gt 0 ]; do
        local batch=()
        for i in 1 2 3 4 5 6 7 8; do
            if [ $((i % 2)) = 0 ]; then
                "$BIN/nfsrdma" get "$url/big" "$work/got.$i" >/dev/null 2>&1 &
            else
                "$BIN/nfsrdma" put "$work/export/big" "$url/put.$i" >/dev/null 2>&1 &
            fi
            batch+=($!)
        done
        sleep "0.$((RANDOM % 25 + 5))"
        for pid in "${batch[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
        for pid in "${batch[@]}"; do wait "$pid" 2>/dev/null || true; done
        left=$((left - 8))
    done
}

# What is kept for the next connection, and the pools in memory that was touched, are there after the first ones.
come_and_go 5
kill_under_load 48
alone
fds_before=$(fds)
threads_before=$(threads)
rss_before=$(rss)
come_and_go "$connects"
kill_under_load "$kills"
alone
echo "fds $fds_before -> $(fds), threads $threads_before -> $(threads), rss $rss_before -> $(rss) KiB"
# Files that were open for clients are closed after a while.
for _ in $(seq 300); do [ "$(fds)" -le $((fds_before + 8)) ] && break; sleep 0.1; done
[ "$(fds)" -le $((fds_before + 8)) ] || fail "descriptors: $fds_before -> $(fds)"
[ "$(threads)" -le $((threads_before + 16)) ] || fail "threads: $threads_before -> $(threads)"
# Pools become resident as they are touched, which ends; what leaks goes on with every client: of 21 in a round, 100 KiB each
# would be seen. A sanitizer keeps what was freed.
settled() {
    local before after
    for _ in $(seq 8); do
        before=$(rss)
        come_and_go 5
        kill_under_load 16
        alone
        after=$(rss)
        echo "rss $before -> $after KiB"
        [ "$after" -gt $((before + 2048)) ] || return 0
    done
    return 1
}
grep -q __asan_init "$BIN/nfsrdmad" || settled || fail "memory grows with every client"
cmp "$work/export/big" <("$BIN/nfsrdma" cat "$url/big") || fail "it does not serve any more"
# Asserts that every pool is full.
stop_server
echo ok
