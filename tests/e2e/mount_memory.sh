#!/usr/bin/env bash
# The memory of the mount's process stays bounded under writers that send more than it could keep, and is printed:
# mount_memory.sh BIN [ROUNDS [MIB [OPTIONS OF THE MOUNT]]]: four writers, each rewriting its file of MIB that often.
BIN=$1
rounds=${2:-2}
mib=${3:-128}
source "$(dirname "$0")/mount_lib.sh"
needs_mount
export_in tmpfs
serve server
mnt=$work/mnt
mount_export "$mnt" "${4:-}"
pid=$(mount_pids "$mnt")
[ -n "$pid" ] || fail "no process has $mnt mounted"
peak_mib() { awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$pid/status"; }
echo text >"$mnt/first"
cat "$mnt/first" >/dev/null
before=$(peak_mib)
writer() { # NUMBER
    local i
    for i in $(seq "$rounds"); do
        limited 280 dd if=/dev/zero of="$mnt/file-$1" bs=1M count="$mib" conv=notrunc,fsync status=none || return 1
    done
}
from=$(date +%s%N)
jobs=()
for i in 1 2 3 4; do writer "$i" & jobs+=($!); done
for job in "${jobs[@]}"; do wait "$job" || fail "a writer failed"; done
took=$((($(date +%s%N) - from) / 1000000))
written=$(peak_mib)
# Reading it all, and a directory of many names that nobody keeps open.
for i in 1 2 3 4; do limited 120 cat "$mnt/file-$i" | cmp -n $((mib << 20)) - "$export/file-$i"; done
mkdir "$export/many"
(cd "$export/many" && seq -f 'name-%g' 5000 | xargs touch)
limited 60 ls -l "$mnt/many" >"$work/listed"
[ "$(wc -l <"$work/listed")" = 5001 ] || fail "ls -l of 5000 names: $(wc -l <"$work/listed") lines"
after=$(peak_mib)
total=$((4 * rounds * mib))
echo "memory: VmHWM ${before} MiB at first, ${written} MiB after $total MiB were written in $took ms," \
    "${after} MiB after they were read and 5,000 names were listed"
# Some 65 MiB as it is; all that the writers have under way is four files. Sanitizers have shadows of all memory.
most=${NR_MOUNT_MEMORY_MIB:-$((roomy > 1 ? 400 : 200))}
[ "$after" -le "$most" ] || fail "the mount's process took $after MiB, more than $most"
unmount "$mnt"
end_serving
echo ok
