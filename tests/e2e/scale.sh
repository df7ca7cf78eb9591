#!/usr/bin/env bash
# 100,000 files in one directory: the list is complete and exact, also while 1,000 entries come and go;
# 10,000 files of 4 KiB put and got: scale.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
mkdir -p "$work/export/many" "$work/export/copied"
host=$(address)
url=nfs://$host$work/export
seq -f "$work/export/many/file-%06.0f" 1 100000 | xargs touch
seq -f "file-%06.0f" 1 100000 >"$work/wanted"
start_server scale --export "$work/export" --listen "$host" --loops 2

"$BIN/nfsrdma" ls "$url/many" >"$work/listed" || fail "ls"
LC_ALL=C sort "$work/listed" | cmp - "$work/wanted" || fail "the list is not exact"

# Others come and go meanwhile; those that stay are all listed, each once.
( set +e; for i in $(seq 1000); do : >"$work/export/many/other-$i"; rm "$work/export/many/other-$((i - 20))" 2>/dev/null; done ) &
changes=$!
pids+=("$changes")
turns=0
while kill -0 "$changes" 2>/dev/null || [ "$turns" = 0 ]; do
    "$BIN/nfsrdma" ls "$url/many" >"$work/listed" || fail "ls during changes"
    grep '^file-' "$work/listed" | LC_ALL=C sort | cmp - "$work/wanted" || fail "the list misses what was there"
    [ -z "$(LC_ALL=C sort "$work/listed" | uniq -d)" ] || fail "a name came twice"
    turns=$((turns + 1))
done
echo "listed $turns times during changes"

mkdir "$work/small"
head -c $((10000 * 4096)) /dev/urandom | (cd "$work/small" && split -b 4096 -a 4 -d - f)
[ "$(ls "$work/small" | wc -l)" = 10000 ] || fail "split"
"$BIN/nfsrdma" put -r "$work/small" "$url/copied" >"$work/put" 2>&1 || { cat "$work/put"; fail "put"; }
"$BIN/nfsrdma" get -r "$url/copied/small" "$work/got" >"$work/get" 2>&1 || { cat "$work/get"; fail "get"; }
sums() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs sha256sum); }
sums "$work/small" >"$work/sums"
[ "$(wc -l <"$work/sums")" = 10000 ] || fail "10,000 files"
sums "$work/export/copied/small" | cmp - "$work/sums" || fail "what was put differs"
got=$work/got
[ -d "$work/got/small" ] && got=$work/got/small
sums "$got" | cmp - "$work/sums" || fail "what was got differs"
stop_server
echo ok
