#!/usr/bin/env bash
# What `cmake --install` puts into a prefix stands right and works from there: install.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
build=$(dirname "$(realpath "$BIN")")
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "cmake --install"; }
if sed -n 's/^-- \(Installing\|Up-to-date\): //p' "$work/log" | grep -v "^$prefix/" >&2; then fail "outside of the prefix"; fi
files=(bin/nfsrdmad bin/nfsrdma bin/rpcrdma-ping bin/rpcrdma-dump share/man/man8/nfsrdmad.8 share/man/man5/nfsrdma-exports.5
    lib/systemd/system/nfsrdmad.service share/doc/nfsrdma/LICENSE)
# Where libfuse is.
[ ! -x "$BIN/mount.nfsrdma" ] || files+=(sbin/mount.nfsrdma sbin/mount.fuse.nfsrdma share/man/man8/mount.nfsrdma.8)
# tests/consumer builds with it, from a prefix as this one.
if [ -e "$build/lib/libnfsrdma.so" ]; then
    library=$(find "$prefix"/lib* -name libnfsrdma.so)
    [ -n "$library" ] || fail "no libnfsrdma.so"
    lib=$(realpath --relative-to="$prefix" "${library%/*}")
    files+=("$lib/libnfsrdma.a" "$lib/pkgconfig/nfsrdma.pc" "$lib/cmake/nfsrdma/nfsrdmaConfig.cmake" include/nfsrdma/tirpc/tirpc_rdma.h)
fi
for file in "${files[@]}"; do
    [ -s "$prefix/$file" ] || { find "$prefix" -type f >&2; fail "no $file"; }
done

# From there alone, with nothing of ours in the environment.
mkdir "$work/export" "$work/state"
chmod 0700 "$work/state"
make_tree "$work/tree"
run() { env -i PATH=/usr/bin:/bin HOME=/nonexistent timeout 60 "$@"; }
for program in "$prefix"/bin/* "$prefix"/sbin/*; do
    [ -x "$program" ] || continue
    run "$program" --help >"$work/out" || { cat "$work/out" >&2; fail "$program --help"; }
    [ -n "$(find "$prefix/share/man" -name "${program##*/}.[18]")" ] || fail "no man page of $program"
done

# The unit names the programs where they are: its commands do what they are for.
unit=$prefix/lib/systemd/system/nfsrdmad.service
command_of() { # NAME: a command of the unit, with this test's files for those of the service
    sed -n "s/^$1=//p" "$unit" | sed "s#/etc/nfsrdma/exports#$work/exports#; s#\${STATE_DIRECTORY}#$work/state#; s#\$NFSRDMAD_OPTIONS#--listen $host#"
}
host=$(address)
echo "$work/export *(rw,no_root_squash,insecure)" >"$work/exports"
read -r -a check < <(command_of ExecStartPre)
read -r -a serve < <(command_of ExecStart)
[ "${check[0]}" = "$prefix/bin/nfsrdmad" ] || fail "the unit runs ${check[0]}"
run "${check[@]}" >"$work/out" || { cat "$work/out" >&2; fail "ExecStartPre"; }
grep -q "state directory $work/state" "$work/out" || { cat "$work/out" >&2; fail "ExecStartPre does not look at the state directory"; }
server_log=$work/serve.log
env -i PATH=/usr/bin:/bin "${serve[@]}" >"$server_log" 2>&1 &
server_pid=$!
pids+=("$server_pid")
for _ in $(seq 1200); do ! grep -q '^nfsrdmad: serving' "$server_log" || break; sleep 0.05; done
run "$prefix/bin/nfsrdma" put -r "$work/tree" "nfs://$host$work/export/tree" || { cat "$server_log" >&2; fail "put"; }
run "$prefix/bin/nfsrdma" get -r "nfs://$host$work/export/tree" "$work/back" --verify || fail "get"
same_tree "$work/tree" "$work/back"
stop_server

if command -v systemd-analyze >/dev/null; then
    systemd-analyze verify --man=no "$unit" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "systemd-analyze verify"; }
fi
if command -v man >/dev/null; then
    for page in "$prefix"/share/man/man?/*; do
        (cd "$prefix/share/man" && LC_ALL=C.UTF-8 man --warnings -l "$page") >"$work/out" 2>"$work/warnings" || fail "man -l $page"
        [ ! -s "$work/warnings" ] && [ "$(wc -l <"$work/out")" -gt 20 ] || { cat "$work/warnings" >&2; fail "$page"; }
    done
fi
echo ok
