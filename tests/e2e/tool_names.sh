#!/usr/bin/env bash
# Names of any bytes, long ones, links of every length, deep trees: there and back, listed, removed: tool_names.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
mkdir "$work/export"
start_server server --export "$work/export" --listen "$host"
url=nfs://$host$work/export
tool() { timeout 60 "$BIN/nfsrdma" "$@"; }

# Odd names.
mkdir "$work/odd"
long=$(printf 'x%.0s' $(seq 255))
names=("-rf" " lead" "trail " "a b" $'new\nline' $'tab\there' $'\xff\xfe' $'\xc3' "100%41" '$(x)' "'" '"' '\' "*" "..." "$long" "ünï")
for name in "${names[@]}"; do printf '%s' "$name" >"$work/odd/$name"; done
tool put -r "$work/odd" "$url/odd"
same_tree "$work/odd" "$work/export/odd"
tool get -r "$url/odd" "$work/odd.back"
same_tree "$work/odd" "$work/odd.back"
[ "$(tool ls -0 "$url/odd" | tr -cd '\0' | wc -c)" = "${#names[@]}" ] || fail "ls -0 does not list every name"
[ "$(tool ls -a "$url/odd" | grep -cx '\.\.\?')" = 2 ] || fail "ls -a"
tool ls --json "$url/odd" | python3 -c '
import json, os, sys
names = sorted(os.fsencode(json.loads(line)["name"]) for line in sys.stdin)
want = sorted(os.listdir(os.fsencode(sys.argv[1])))
sys.exit(0 if names == want else "names of --json differ")' "$work/odd" || fail "ls --json"
[ "$(tool cat "$url/odd/new%0Aline")" = $'new\nline' ] || fail "a name with a newline"
[ "$(tool cat "$url/odd/%FF%FE" | od -An -tx1 | tr -d ' ')" = fffe ] || fail "a name that is no UTF-8"
[ "$(tool cat "$url/odd/-rf")" = -rf ] || fail "a name with a dash"
(cd "$work/odd" && tool put -- -rf "$url/dash") || fail "a local name with a dash"
tool rm -r "$url/odd"
[ ! -e "$work/export/odd" ] || fail "rm -r of odd names"

# B107: targets of symbolic links have their exact length.
tool mkdir "$url/links"
text=
for length in $(seq 64) 255 1023 1024 1025 4095; do
    text=$(printf '%*s' "$length" '' | tr ' ' t)
    tool ln -s "$text" "$url/links/$length"
    [ "$(readlink "$work/export/links/$length")" = "$text" ] || fail "B107: a link of $length bytes at the server"
done
tool get -r "$url/links" "$work/links"
for length in $(seq 64) 255 1023 1024 1025 4095; do
    [ "$(readlink "$work/links/$length" | tr -d '\n' | wc -c)" = "$length" ] || fail "B107: a link of $length bytes here"
done

# Deeper than any path of a system call.
python3 - "$work/deep" <<'EOF'
import os, sys
os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])
for i in range(300):
    os.mkdir("d" * 100); os.chdir("d" * 100)
open("end", "w").write("end")
EOF
tool put -r --json "$work/deep" "$url/deep" | grep -q '"directories":301' || fail "put of a deep tree"
[ "$(tool ls -R "$url/deep" | grep -c '^end$')" = 1 ] || fail "ls -R of a deep tree"
tool get -r "$url/deep" "$work/deep.back"
diff <(cd "$work/deep" && find . -depth | wc -l) <(cd "$work/deep.back" && find . -depth | wc -l) || fail "get of a deep tree"
tool rm -r "$url/deep"
[ ! -e "$work/export/deep" ] || fail "rm -r of a deep tree"

# B79: every name once, at any size, with and without attributes.
for count in 0 1 100 2500 20000; do
    mkdir "$work/export/n$count"
    (cd "$work/export/n$count" && [ "$count" = 0 ] || seq -f 'file-%06g' "$count" | xargs -r touch)
    for option in -1 -l; do
        tool ls $option "$url/n$count" | awk '{print $NF}' >"$work/names"
        [ "$(wc -l <"$work/names")" = "$count" ] || fail "B79: $count entries, ls $option"
        [ -z "$(sort "$work/names" | uniq -d)" ] || fail "B79: ls $option repeats names"
    done
done
stop_server
echo ok
