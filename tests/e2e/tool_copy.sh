#!/usr/bin/env bash
# get and put: times, holes, sizes, --continue, --verify, standard input and output, summaries: tool_copy.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export"
start_server server --export "$work/export" --listen "$host"
url=nfs://$host$work/export
tool() { timeout 100 "$BIN/nfsrdma" "$@"; }
member() { grep -o "\"$1\":[0-9.]*" | head -n 1 | cut -d: -f2; }

# Modes, times to the nanosecond, links; hard links become files.
make_tree "$work/tree"
ln "$work/tree/sub/file-1" "$work/tree/sub/hard"
touch -d '2001-02-03 04:05:06.123456789' "$work/tree/sub/file-2" "$work/tree/empty dir"
chmod 0500 "$work/tree/empty dir"
mkfifo "$work/tree/fifo"
tool put -r --verify "$work/tree" "$url/tree" 2>"$work/err" || fail "put: $(cat "$work/err")"
grep -q 'left out' "$work/err" || fail "the fifo was left out without a word"
tool get -r --verify "$url/tree" "$work/back"
shape() { (cd "$1" && find . ! -type p -printf '%P %y %m %T@ %l\n' | grep -v '^ ' | grep -v ' l ' | sort); }
diff <(shape "$work/tree") <(shape "$work/export/tree") || fail "modes or times of put"
diff <(shape "$work/tree") <(shape "$work/back") || fail "modes or times of get"
rm "$work/tree/fifo"
same_tree "$work/tree" "$work/back"

# --continue leaves out what is whole, and copies what is not.
out=$(tool put -r --continue --json "$work/tree" "$url/tree")
[ "$(member files <<<"$out")" = 0 ] || fail "--continue copied again: $out"
head -c 300 "$work/tree/sub/deeper/big" >"$work/back/sub/deeper/big"
rm "$work/back/sub/file-4096"
out=$(tool get -r --continue --json "$url/tree" "$work/back" || true)
[ "$(member files <<<"$out")" = 2 ] || fail "--continue: $out"
same_tree "$work/tree" "$work/back"

# The same command once more is the same copy, though its target is a directory by now; without it goes into that.
out=$(tool get -r --continue --json "$url/tree/sub" "$work/back/sub")
[ ! -e "$work/back/sub/sub" ] && [ "$(member files <<<"$out")" = 0 ] || fail "get -r --continue: $out"
mkdir "$work/into"
tool get -r --continue "$url/tree/sub" "$work/into"
[ -e "$work/into/sub/file-1" ] || fail "an empty directory is no copy"
tool get -r --continue "$url/tree/sub" "$work/into"
same_tree "$work/into/sub" "$work/tree/sub"

# A large partial file is gone on with, and moves less.
head -c 67108864 /dev/urandom >"$work/large"
touch -d '2020-01-01' "$work/large"
tool put "$work/large" "$url/large"
head -c 50000000 "$work/large" >"$work/large.back"
out=$(tool get --continue --verify --json "$url/large" "$work/large.back")
cmp "$work/large" "$work/large.back"
[ "$(member continued <<<"$out")" = 1 ] || fail "was not continued: $out"
[ "$(member bytes <<<"$out")" -lt 40000000 ] || fail "continued, and moved all of it: $out"
truncate -s 50000000 "$work/export/large"
out=$(tool put --continue --json "$work/large" "$url/large")
cmp "$work/large" "$work/export/large"
[ "$(member continued <<<"$out")" = 1 ] || fail "put was not continued: $out"

# B103: marks around 2 GiB and 4 GiB in a sparse file.
python3 - "$work/sparse" <<'EOF'
import sys
with open(sys.argv[1], "wb") as f:
    for at in (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5):
        f.seek(at); f.write(b"%d" % (at % 10))
    f.truncate(5 * 2**30)
EOF
tool put "$work/sparse" "$url/sparse"
[ "$(stat -c %s "$work/export/sparse")" = 5368709120 ] || fail "B103: size at the server"
[ "$(stat -c %b "$work/export/sparse")" -lt 100000 ] || fail "B103: holes were filled"
for at in 2147483647 2147483648 4294967295 4294967296 4294967301; do
    want=$((at % 10))
    [ "$(tool cat --offset $at --length 1 "$url/sparse")" = "$want" ] || fail "B103: mark at $at"
done
[ "$(tool cat --offset 5368709119 "$url/sparse" | od -An -tx1 | tr -d ' ')" = 00 ] || fail "B103: the last byte"
[ "$(tool cat --offset 5368709120 "$url/sparse" | wc -c)" = 0 ] || fail "B103: behind the end"
tool rm "$url/sparse"

# B101, B128: requests of every size.
head -c 3333333 /dev/urandom >"$work/sizes"
for size in 1000 65536 69632 262144 1048576 4194304; do
    tool put --wsize "$size" "$work/sizes" "$url/sizes"
    tool cat --rsize "$size" "$url/sizes" | cmp - "$work/sizes" || fail "B128: $size"
done
for size in 65535 65536 65537; do
    head -c "$size" "$work/sizes" >"$work/piece"
    [ "$(tool cat --length "$size" --rsize 65536 "$url/sizes" | cmp - "$work/piece" && echo same)" = same ] || fail "B101: $size"
done

# Standard input and output.
seq 300000 | tool put - "$url/stream"
tool get "$url/stream" - | cmp - <(seq 300000) || fail "standard input and output"
: | tool put - "$url/nothing" && [ ! -s "$work/export/nothing" ] || fail "empty standard input"
head -c 50000000 /dev/zero | tool put - "$url/stream" && [ "$(stat -c %s "$work/export/stream")" = 50000000 ] || fail "a long stream"
tool cat "$url/stream" | head -c 10 >/dev/null || true

# Failures: each is named, the rest goes on, status 1.
mkdir -p "$work/bad/sub"
echo a >"$work/bad/a"
echo z >"$work/bad/z"
ln -s nowhere "$work/bad/l"
tool put -r "$work/bad" "$url/bad"
mkdir -p "$work/t/bad/a"
status=0
out=$(tool get -r --json "$url/bad" "$work/t" 2>"$work/err") || status=$?
[ "$status" = 1 ] || fail "status $status after a failure"
[ "$(member failed <<<"$out")" = 1 ] || fail "failures: $out"
python3 -c 'import json,sys; f=json.load(sys.stdin)["failures"]; assert len(f)==1 and f[0]["path"].endswith("/a"), f' <<<"$out" || fail "failures of --json"
[ "$(cat "$work/t/bad/z")" = z ] || fail "a failure stopped the rest"
grep -q '/a:' "$work/err" || fail "the failure was not named: $(cat "$work/err")"
stop_server
echo ok
