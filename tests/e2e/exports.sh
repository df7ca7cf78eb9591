#!/usr/bin/env bash
# Exports: who may reach them, as whom, and what a reload does to connections: exports.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/named" "$work/rw" "$work/ro" "$work/private" "$work/with space" "$work/later"
chmod 0777 "$work/rw"
echo hello >"$work/ro/hello"
head -c 67108864 "$filler" >"$work/rw/big"
tool() { timeout 60 "$BIN/nfsrdma" "$@"; }
refused() { # TEXT COMMAND...: fails with status 1 and says that
    local text=$1 got=0
    shift
    "$@" >"$work/out" 2>&1 || got=$?
    [ "$got" = 1 ] || { cat "$work/out" >&2; fail "$*: status $got, not 1"; }
    grep -qiE -- "$text" "$work/out" || { cat "$work/out" >&2; fail "$*: does not say '$text'"; }
}
until_logged() { # COUNT TEXT: the server says that so often, within a minute
    for _ in $(seq 1200); do
        [ "$(grep -c -- "$2" "$server_log" || true)" -lt "$1" ] || return 0
        sleep 0.05
    done
    tail -n 20 "$server_log" >&2
    fail "the server does not say '$2'"
}

# A file with errors: each is named by line, and nothing is served.
printf '/a @group(rw)\n\n%s *(rw)\n%s *(wrong)\n' "$work/rw" "$work/ro" >"$work/bad"
for mode in "" --check; do
    got=0
    timeout 60 "$BIN/nfsrdmad" $mode --exports-file "$work/bad" --listen "$host" >"$work/out" 2>&1 || got=$?
    [ "$got" = 2 ] || fail "a bad exports file gives status $got, not 2"
    grep -q "bad:1: .*netgroup" "$work/out" || fail "line 1 is not told"
    grep -q "bad:4: unknown option 'wrong'" "$work/out" || fail "line 4 is not told"
done

cat >"$work/exports" <<END
# what the test serves
$work/rw      127.0.0.0/8(rw,all_squash,anonuid=$(id -u),anongid=$(id -g))
$work/ro      -ro \\
              127.0.0.0/8
$work/private 192.0.2.1(rw) 2001:db8::/64(rw)
"$work/with space" *(rw,no_root_squash)
$work/named   local*(ro)
END
"$BIN/nfsrdmad" --check --exports-file "$work/exports" --listen "$host" >"$work/out" || fail "--check of a good file"
grep -q '192.0.2.1(rw,root_squash,secure' "$work/out" || fail "--check does not list the hosts"

start_server server --exports-file "$work/exports" --listen "$host"
grep '^nfsrdmad: serving' "$server_log" | grep -q "$host:20049 (softroce, 1 loop; up to [0-9]* connections" ||
    fail "the line at start does not tell address, device and limits"
grep '^nfsrdmad: serving' "$server_log" | grep -qE 'each caller acts as itself|all callers act as uid [0-9]+' ||
    fail "the line at start does not tell as whom callers act"
url=nfs://$host
tool put "$work/ro/hello" "$url$work/rw/hello"
[ "$(tool cat "$url$work/ro/hello")" = hello ] || fail "a read-only export cannot be read"
refused 'read-only' tool put "$work/ro/hello" "$url$work/ro/more"
refused 'read-only' tool rm "$url$work/ro/hello"
refused 'permission|denied|acces' tool ls "$url$work/private"
grep -q "mount of $work/private refused to 127" "$server_log" || fail "a refusal is not logged"
if [ "$(getent hosts 127.0.0.1 | awk '{ print $2 }')" = localhost ]; then
    tool ls "$url$work/named" >/dev/null || fail "a wildcard over host names does not match localhost"
else
    refused 'permission|denied|acces' tool ls "$url$work/named"
fi
refused 'no such|not exported' tool ls "$url$work/later"
tool ls "$url$work/with%20space" >/dev/null 2>&1 || tool ls "$url$work/with space" >/dev/null || fail "a path with a blank"

stop_server

# Reloads while a file is read slowly over one connection: the connection stays, the bytes are right, and what the
# file says holds at once.
cp "$work/exports" "$work/exports.without"
{ cat "$work/exports"; echo "$work/later *(ro)"; } >"$work/exports.with"
echo "$work/rw *(rw" >"$work/exports.wrong"
install_exports() { cp "$work/exports.$1" "$work/new" && mv "$work/new" "$work/exports" && kill -HUP "$server_pid"; }
accepted() { # connections so far
    rm -f "$work/stats"
    kill -USR1 "$server_pid"
    for _ in $(seq 1200); do [ ! -s "$work/stats" ] || break; sleep 0.05; done
    grep -o '"accepted":[0-9]*' "$work/stats" | head -n 1 | cut -d: -f2
}
start_server reload --exports-file "$work/exports" --listen "$host" --stats-json "$work/stats"
(tool cat "$url$work/rw/big" | (for _ in $(seq 15); do head -c 4194304; sleep 0.2; done; cat) | sha256sum >"$work/sum") &
reader=$!
pids+=("$reader")
for _ in $(seq 240); do
    before=$(accepted)
    [ "$before" = 0 ] || break
    sleep 0.25
done
[ "$before" = 1 ] || fail "$before connections instead of the reader's"
for n in 1 2 3 4; do
    install_exports with
    until_logged $((2 * n - 1)) 'exports reloaded'
    install_exports without
    until_logged $((2 * n)) 'exports reloaded'
done
[ "$(accepted)" = 1 ] || fail "the reader had to connect again"
install_exports wrong
until_logged 1 "exports:1: no ')' ends the options"
until_logged 1 'exports not reloaded'
[ "$(tool cat "$url$work/rw/hello")" = hello ] || fail "a bad file took the exports away"
install_exports with
until_logged 9 'exports reloaded'
tool ls "$url$work/later" >/dev/null || fail "a new export is not there"
install_exports without
until_logged 10 'exports reloaded'
refused 'no such|not exported' tool ls "$url$work/later"
kill -0 "$reader" 2>/dev/null || echo "note: the reader had ended before the last reload"
wait "$reader" || fail "a reader was disturbed by a reload"
[ "$(cat "$work/sum")" = "$(sha256sum <"$work/rw/big")" ] || fail "what was read over reloads differs"
stop_server
echo ok
