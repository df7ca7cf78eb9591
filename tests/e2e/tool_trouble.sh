#!/usr/bin/env bash
# Servers that go, stop or are full; signals; permissions; showmount: tool_trouble.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export" "$work/other"
start_server server --export "$work/export" --export "$work/other" --listen "$host"
url=nfs://$host$work/export
tool() { timeout 60 "$BIN/nfsrdma" "$@"; }
now() { date +%s%N; }
within() { # MILLISECONDS SINCE WHAT: what waits for an answer in vain waits a minute; a busy machine is slow, too
    local took=$((($(now) - $2) / 1000000))
    [ "$took" -lt "$1" ] || fail "$3 took $took ms"
}

# B93: what showmount shows comes at once.
begin=$(now)
for option in "" -e -a -d; do
    tool showmount $option "$host" >"$work/out" || fail "B93: showmount $option"
    [ -n "$option" ] && [ "$option" != -e ] || grep -q "$work/other" "$work/out" || fail "B93: exports are missing"
done
tool showmount --json "$host" | grep -q "\"export\":\"$work/export\"" || fail "B93: showmount --json"
within 30000 "$begin" "B93: four showmounts"
tool ping -c 2 "$host" >/dev/null || fail "ping of a host"
status=0
tool ls "nfs://$host/none" 2>"$work/err" || status=$?
[ "$status" = 1 ] && grep -q "$work/export" "$work/err" || fail "the exports are not named: $(cat "$work/err")"

# Changing attributes.
tool touch "$url/t"
[ -f "$work/export/t" ] || fail touch
tool touch -d @1000.5 "$url/t"
[ "$(stat -c %.9Y "$work/export/t")" = 1000.500000000 ] || fail "touch -d"
tool chmod u=rw,go=r "$url/t"
tool chmod go-r,u+x "$url/t"
[ "$(stat -c %a "$work/export/t")" = 700 ] || fail chmod
tool truncate -s 5G "$url/t"
[ "$(stat -c %s "$work/export/t")" = 5368709120 ] || fail truncate
tool touch -c "$url/no" && [ ! -e "$work/export/no" ] || fail "touch -c"
tool mkdir -p "$url/p/q/r"
tool mv "$url/t" "$url/p/q" && [ -e "$work/export/p/q/t" ] || fail "mv into a directory"

# Interrupted: in order, status 130, what is there in part is named.
head -c 400000000 /dev/zero | tr '\0' x >"$work/export/big"
"$BIN/nfsrdma" get --rsize 4096 "$url/big" "$work/big" 2>"$work/err" &
pid=$!
for _ in $(seq 1200); do
    [ -s "$work/big" ] && break
    sleep 0.05
done
begin=$(now)
kill -INT "$pid"
status=0
wait "$pid" || status=$?
within 30000 "$begin" "an interrupt"
[ "$status" = 130 ] || fail "interrupted: status $status: $(cat "$work/err")"
grep -q 'interrupted.* of it are there' "$work/err" || fail "the partial file is not named: $(cat "$work/err")"
tool get --continue --verify "$url/big" "$work/big" || fail "continued after an interrupt"
cmp "$work/big" "$work/export/big"
rm "$work/big"

# B121: an interrupt while the server does not answer.
kill -STOP "$server_pid"
"$BIN/nfsrdma" ls "$url" 2>/dev/null &
pid=$!
takes_interrupts "$pid"
begin=$(now)
kill -INT "$pid"
status=0
wait "$pid" || status=$?
within 30000 "$begin" "B121: an interrupt while nobody answers"
[ "$status" = 130 ] || fail "B121: status $status"
begin=$(now)
status=0
tool ls --timeout 1 "$url" 2>"$work/err" || status=$?
[ "$status" = 1 ] || fail "a server that does not answer: status $status"
within 30000 "$begin" "--timeout 1"
kill -CONT "$server_pid"

# B105: the server goes away in the middle; the tool ends, without spinning.
"$BIN/nfsrdma" put --wsize 4096 --timeout 3 "$work/export/big" "nfs://$host$work/other/big" 2>"$work/err" &
pid=$!
for _ in $(seq 1200); do
    [ -s "$work/other/big" ] && break
    sleep 0.05
done
begin=$(now)
kill -KILL "$server_pid"
wait "$server_pid" 2>/dev/null || true
status=0
wait "$pid" || status=$?
[ "$status" = 1 ] || fail "B105: status $status"
within 45000 "$begin" "B105: the end of a put to a server that is gone"
grep -qE 'lost|answer' "$work/err" || fail "B105: $(cat "$work/err")"
grep -q 'with --continue goes on' "$work/err" || fail "B105: what to do is not told: $(cat "$work/err")"
start_server again --export "$work/export" --export "$work/other" --listen "$host"
tool put --continue --verify "$work/export/big" "nfs://$host$work/other/big" || fail "B105: continued"
cmp "$work/export/big" "$work/other/big"
stop_server
echo ok
