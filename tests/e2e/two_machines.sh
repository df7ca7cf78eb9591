#!/usr/bin/env bash
# What README says under "Export a directory, copy from another machine", as it is written there: the server in one
# network namespace, who calls in another, a veth pair between them: two_machines.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
readme=$(realpath "$(dirname "$0")/../../README.md")
[ "$(id -u)" = 0 ] || skip "root: network namespaces"
for program in ip nsenter setpriv; do
    command -v $program >/dev/null || skip "root: to install $program (packages iproute2, util-linux)"
done
chmod 0755 "$work"
setpriv --reuid=61001 --regid=61001 --clear-groups test -x "$BIN/nfsrdma" || skip "root: the programs are hidden from other users"
if [ "${2:-}" != inside ]; then
    unshare --net --mount true 2>/dev/null || skip "root: namespaces, which are refused here"
    rm -rf "$work"
    exec unshare --net --mount --fork bash "$0" "$BIN" inside
fi
# The other machine lives as long as this process.
unshare --net sleep 600 &
other=$!
pids+=("$other")
for _ in $(seq 1200); do [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/$$/ns/net)" ] || break; sleep 0.05; done
ip link add here type veth peer name there netns "$other" 2>"$work/out" || { cat "$work/out"; skip "root: a veth pair"; }
at_other() { nsenter --target "$other" --net "$@"; }
ip link set lo up
ip address add 192.0.2.1/24 dev here
ip link set here up
at_other ip link set lo up
at_other ip address add 192.0.2.2/24 dev there
at_other ip link set there up
for at in /srv /run; do mount -t tmpfs none $at || skip "root: a mount namespace"; done

# block N: the Nth block of commands of README's section, its comments cut off.
block() {
    sed -n '/^## Export a directory/,/^## /p' "$readme" |
        awk -v want="$1" '/^```/ { inside = !inside; number += inside; next } inside && number == want' | sed 's/ *# .*//'
}
PATH=$(realpath "$BIN"):$PATH
export PATH
user=61001
mkdir -m 0755 "$work/server" "$work/client" /srv/data
chown $user "$work/client" /srv/data
chmod 0755 "$work"
make_tree "$work/client/results"
chown -R -h $user "$work/client/results"

block 1 >"$work/server/commands"
block 2 >"$work/client/commands"
[ "$(grep -c nfsrdmad "$work/server/commands")" = 2 ] || { cat "$work/server/commands"; fail "README's block for the server"; }
[ "$(grep -c nfsrdma "$work/client/commands")" = 3 ] || { cat "$work/client/commands"; fail "README's block for the client"; }
# All at the server but the last command; that one serves until it is told to end.
cd "$work/server"
sed '$d' commands >first
bash -eu first >"$work/check" || { cat "$work/check"; fail "README's commands for the server"; }
grep -q '192.0.2.0/24(rw' "$work/check" && grep -q 'example.org(ro' "$work/check" ||
    { cat "$work/check"; fail "--check does not say to whom"; }
serve() { # ARGUMENT...: the last command with these, until it serves
    server_log=$work/serve.log
    read -r -a words < <(sed -n '$p' commands)
    "${words[@]}" "$@" >"$server_log" 2>&1 &
    server_pid=$!
    pids+=("$server_pid")
    for _ in $(seq 1200); do
        ! grep -q '^nfsrdmad: serving' "$server_log" || return 0
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$server_log" >&2
    fail "README's last command for the server does not serve"
}
serve
cd "$work/client"
as_user() { at_other timeout 60 setpriv --reuid=$user --regid=$user --clear-groups "$@"; }
as_user bash -eu commands >"$work/out" 2>&1 || { cat "$work/out" "$server_log" >&2; fail "README's commands at the other machine"; }
grep -q '^/srv/data .*192.0.2.0/24' "$work/out" || { cat "$work/out" >&2; fail "showmount -e"; }
same_tree results /srv/data/results
same_tree results copy
[ "$(stat -c %u /srv/data/results/sub/file-1)" = $user ] || fail "what was put is not the caller's"

# kill -HUP, as README's comment says: the network may read only from now on.
echo '/srv/data  192.0.2.0/24(ro)' >"$work/server/exports"
kill -HUP "$server_pid"
for _ in $(seq 1200); do ! grep -q 'exports reloaded' "$server_log" || break; sleep 0.05; done
if as_user nfsrdma put -r ./results nfs://192.0.2.1/srv/data/more >"$work/out" 2>&1; then fail "put to a read-only export"; fi
grep -qi 'read-only' "$work/out" || { cat "$work/out" >&2; fail "the refusal does not say read-only"; }
as_user nfsrdma ls nfs://192.0.2.1/srv/data | grep -q results || fail "ls after the reload"
stop_server
cd "$work"

# Where rpcbind runs, others' tools find the server, too.
if command -v rpcbind >/dev/null && command -v showmount >/dev/null; then
    rpcbind -f -w >"$work/rpcbind.log" 2>&1 &
    pids+=($!)
    for _ in $(seq 1200); do [ -S /run/rpcbind.sock ] && break; sleep 0.05; done
    cd "$work/server"
    serve --rpcbind
    at_other timeout 30 showmount --no-headers -e 192.0.2.1 >"$work/out" || fail "showmount -e from the other machine"
    grep -q '^/srv/data 192.0.2.0/24' "$work/out" || { cat "$work/out" >&2; fail "showmount shows something else"; }
    cd "$work"
    stop_server
else
    echo "note: without rpcbind and showmount (packages rpcbind, nfs-common)"
fi
echo ok
