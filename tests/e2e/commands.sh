#!/usr/bin/env bash
# Every subcommand of nfsrdma once, its exit status and its errors: commands.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export"
start_server server --export "$work/export" --listen "$host"
url=nfs://$host$work/export
tool() { "$BIN/nfsrdma" "$@"; }
expect() { # STATUS TEXT COMMAND...: the command fails with that status and says that
    local want=$1 text=$2 got=0
    shift 2
    "$@" >"$work/out" 2>&1 || got=$?
    [ "$got" = "$want" ] || { cat "$work/out" >&2; fail "$*: status $got, not $want"; }
    grep -qiE -- "$text" "$work/out" || { cat "$work/out" >&2; fail "$*: does not say '$text'"; }
}

echo hello >"$work/hello"
tool mkdir "$url/d"
tool put "$work/hello" "$url/d/hello"
[ "$(tool cat "$url/d/hello")" = hello ] || fail cat
tool ls "$url/d" | grep -qx hello || fail ls
tool ls -l "$url/d" | grep -q hello || fail "ls -l"
tool stat "$url/d/hello" | grep -q 6 || fail stat
tool mv "$url/d/hello" "$url/d/bye"
tool ln "$url/d/bye" "$url/d/hard"
[ "$(stat -c %h "$work/export/d/hard")" = 2 ] || fail ln
tool df "$url" >/dev/null
tool ping -c 3 "$url" >/dev/null
tool rm "$url/d/bye"
[ ! -e "$work/export/d/bye" ] || fail rm
tool rm -r "$url/d"
[ ! -e "$work/export/d" ] || fail "rm -r"
for i in $(seq 2500); do : >"$work/export/n$i"; done
[ "$(tool ls "$url" | sort -u | wc -l)" = 2500 ] || fail "B79: a listing of 2500 names is not complete"

expect 1 'no such file' tool cat "$url/none"
expect 1 'n2500|nothere|no such' tool get "$url/nothere" "$work/x"
expect 1 'export|not exported|access|no such' tool ls "nfs://$host/not/exported"
expect 2 'nfs://' tool ls /not/a/url
expect 2 '' tool frobnicate
expect 1 'refused|listen|connect' tool ls "nfs://$host:20050$work/export"
expect 1 'answer|timed out|unreachable' tool ls --timeout 1 "nfs://$(address)$work/export"
expect 1 'no such file|does not exist' "$BIN/nfsrdmad" --export "$work/none" --listen "$(address)"
expect 1 'in use' "$BIN/nfsrdmad" --export "$work/export" --listen "$host"
for program in nfsrdma nfsrdmad rpcrdma-ping rpcrdma-bench rpcrdma-dump; do
    "$BIN/$program" --help >/dev/null || fail "$program --help"
done
stop_server
echo ok
