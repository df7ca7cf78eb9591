#!/usr/bin/env bash
# A mount whose server goes, comes, stays away, and whose own process is killed: mount_recovery.sh BIN [SECONDS OF TROUBLE [OPTIONS]]
BIN=$1
seconds=${2:-12}
more=${3:+,$3}
source "$(dirname "$0")/mount_lib.sh"
needs_mount
needs_program git
export_in tmpfs
mnt=$work/mnt
mkdir "$work/mnt"
lives=0
again() { lives=$((lives + 1)); serve "server-$lives" "$@"; }
ours() { [ "$mount_by" = nfsrdma ]; }
# ends_within SECONDS PID WHAT: the process is gone by then.
ends_within() {
    local _
    for _ in $(seq $(($1 * 10 * roomy))); do
        kill -0 "$2" 2>/dev/null || return 0
        case $(awk '{ print $3 }' "/proc/$2/stat" 2>/dev/null) in Z | '') return 0 ;; esac
        sleep 0.1
    done
    cat "/proc/$2/stack" "/proc/$2/wchan" 2>/dev/null >&2
    fail "$3 is not done in $1 s"
}
# Something that waits on the mount, with a server that is dead; its pid is in blocked.
blocked_on() { # COMMAND...
    "$@" >"$work/blocked.out" 2>"$work/blocked.err" </dev/null &
    blocked=$!
    pids+=("$blocked")
    sleep 1
    kill -0 "$blocked" 2>/dev/null || fail "$* did not wait for the server: $(cat "$work/blocked.err")"
}

# Copies, names and appends, until told to stop; each step is compared.
copies() { # NUMBER
    local i=0
    while [ ! -e "$work/enough" ] || [ $i = 0 ]; do
        i=$((i + 1))
        cp -r "$work/tree" "$mnt/copy-$1" || return 1
        diff -r --no-dereference "$work/tree" "$mnt/copy-$1" || return 1
        mv "$mnt/copy-$1" "$mnt/moved-$1" || return 1
        rm -r "$mnt/moved-$1" || return 1
    done
    echo "$i" >"$work/copies-$1"
}
appends() {
    local i=0
    : >"$work/appended"
    while [ ! -e "$work/enough" ] || [ $i -lt 20 ]; do
        i=$((i + 1))
        echo "line $i" >>"$mnt/appended" || return 1
        echo "line $i" >>"$work/appended"
        ln "$mnt/appended" "$mnt/linked" && rm "$mnt/linked" && mkdir "$mnt/made" && rmdir "$mnt/made" || return 1
    done
    cmp "$mnt/appended" "$work/appended"
}
commits() {
    local i=0
    export HOME=$work GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
    git init -q "$mnt/repository" || return 1
    while [ ! -e "$work/enough" ] || [ $i = 0 ]; do
        i=$((i + 1))
        echo "$i" >"$mnt/repository/file-$i"
        git -C "$mnt/repository" add -A && git -C "$mnt/repository" commit -q -m "$i" || return 1
    done
    git -C "$mnt/repository" fsck --full --no-progress
}
server_goes_and_comes() {
    local job kills=0 jobs=()
    make_tree "$work/tree"
    again
    mount_export "$mnt" "hard$more"
    for job in "copies 1" "copies 2" appends commits; do
        $job >"$work/job-${job// /-}.log" 2>&1 &
        jobs+=("$!:$job")
    done
    local end=$((SECONDS + seconds))
    while [ $SECONDS -lt $end ]; do
        sleep 1.5
        kill_server
        kills=$((kills + 1))
        sleep 0.3
        again
    done
    touch "$work/enough"
    for job in "${jobs[@]}"; do
        ends_within 120 "${job%%:*}" "${job#*:}"
        wait "${job%%:*}" || { cat "$work/job-$(tr ' ' - <<<"${job#*:}").log" >&2; fail "${job#*:}: an error, or other bytes, after $kills kills"; }
    done
    echo "recovery: $kills kills, $(cat "$work/copies-1") + $(cat "$work/copies-2") copies, $(wc -l <"$work/appended") appends, no error"
    # What was open before a restart is open after it, with its offset; also what nobody has read of it.
    head -c 3000000 /dev/urandom >"$export/large"
    exec 7<"$mnt/large" 8<"$mnt/appended" 9>>"$mnt/appended"
    read -r _ <&8
    kill_server
    again 7<&- 8<&- 9>&-
    limited 60 tail -c 100000 <&7 | cmp - <(tail -c 100000 "$export/large") || fail "the end of an open file after a restart"
    exec 7<&-
    read -r line <&8
    [ "$line" = "line 2" ] || fail "an open file after a restart: '$line'"
    echo "after restart" >&9
    exec 8<&- 9>&-
    tail -n 1 "$export/appended" | grep -q 'after restart' || fail "an append by an old descriptor"
    unmount "$mnt"
    end_serving
}

reconnects() {
    limited 30 "$BIN/nfsrdma" stats --json "$mnt" | python3 -c 'import json, sys; print(json.load(sys.stdin)["transport"]["reconnects"])'
}
# Nobody talks for a while: B105.
idle() {
    again --idle-timeout 2
    mount_export "$mnt" "hard,actimeo=0$more"
    echo text >"$mnt/idle"
    sleep 5
    limited 30 stat "$mnt/idle" >/dev/null || fail "B105: stat after the server closed an idle connection"
    [ "$(limited 30 cat "$mnt/idle")" = text ] || fail "B105: cat"
    [ "$(reconnects)" -ge 1 ] || fail "B105: the server has closed no connection"
    # A server that is away costs no time of the processor.
    kill_server
    local pid before after
    pid=$(mount_pids "$mnt")
    blocked_on cat "$mnt/idle"
    before=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    sleep 5
    after=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    echo "idle: $((after - before)) hundredths of a second of processor in 5 s without a server"
    [ $((after - before)) -le $((50 * roomy)) ] || fail "B105: $((after - before)) of 500 hundredths are burnt while the server is away"
    again
    ends_within 60 "$blocked" "B105: a reader when the server is back"
    wait "$blocked" || fail "B105: $(cat "$work/blocked.err")"
    unmount "$mnt"
    end_serving
}

# soft: an error in the time asked for. timeo is in tenths of a second, as in nfs(5).
soft_ends() { # OPTION ERROR
    local begin status=0 took
    again
    mount_export "$mnt" "$1,timeo=10,retrans=2,actimeo=0$more"
    echo text >"$mnt/soft"
    head -c 3000000 /dev/urandom >"$mnt/data"
    limited 30 cat "$mnt/soft" >/dev/null
    exec 8<>"$mnt/data"
    kill_server
    begin=$(date +%s)
    LC_ALL=C limited 60 ls "$mnt/" >/dev/null 2>"$work/err" || status=$?
    took=$(seconds_since "$begin")
    [ "$status" != 0 ] && [ "$status" != 124 ] || fail "$1: status $status from a dead server"
    says "$2" "$work/err"
    [ "$took" -le $((20 * roomy)) ] || fail "$1,timeo=10,retrans=2 took $took s"
    status=0
    # Write, fsync or close tells it, of a file that was open before.
    LC_ALL=C limited 60 dd if=/dev/zero bs=64k count=16 conv=notrunc,fsync >&8 2>"$work/err" || status=$?
    [ "$status" = 1 ] || fail "$1: dd to a dead server: status $status"
    says "$2" "$work/err"
    exec 8>&-
    echo "$1: '$2' after $took s"
    # The server is back, and so is the mount.
    again
    for _ in $(seq 20); do ! limited 30 cat "$mnt/soft" >"$work/out" 2>&1 || break; sleep 0.5; done
    [ "$(cat "$work/out")" = text ] || fail "$1: the mount is dead after the server came back: $(cat "$work/out")"
    unmount "$mnt"
    end_serving
}

# A dead server, a hard mount, and who waits on it: signals, umount -f, umount -l.
dead_server() {
    local pid how
    again
    mkdir "$export/dir"
    head -c 3000000 /dev/urandom >"$export/dir/file"
    for how in -f -l; do
        mount_export "$mnt" "hard,actimeo=0$more"
        echo x >"$mnt/dir/written"
        pid=$(mount_pids "$mnt")
        kill_server
        # SIGKILL of a blocked reader, ctrl-C of a blocked ls.
        blocked_on cat "$mnt/dir/file"
        kill -KILL "$blocked"
        ends_within 10 "$blocked" "a reader that was killed"
        wait "$blocked" 2>/dev/null || true
        blocked_on python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.listdir(sys.argv[1])' "$mnt/dir"
        kill -INT "$blocked"
        ends_within 10 "$blocked" "ctrl-C of a list of names"
        # A handler that returns: the system call says EINTR.
        blocked_on python3 -c 'import os, signal, sys
class Interrupted(Exception): pass
def handler(number, frame): raise Interrupted()
signal.signal(signal.SIGALRM, handler)
signal.alarm(3)
try: os.listdir(sys.argv[1])
except Interrupted: sys.exit(7)' "$mnt/dir"
        ends_within 15 "$blocked" "a list of names with an alarm"
        wait "$blocked" && status=0 || status=$?
        [ "$status" = 7 ] || fail "an alarm did not end a system call: status $status: $(cat "$work/blocked.err")"
        blocked_on cat "$mnt/dir/file"
        limited 15 umount "$how" "$mnt" 2>"$work/err" || [ "$how" = -f ] || fail "umount $how of a dead server: $(cat "$work/err")"
        ! is_mounted "$mnt" || limited 15 umount -l "$mnt" || fail "umount -l after umount $how"
        # -l lets who is inside be; when it is killed all ends.
        [ "$how" = -f ] || kill -KILL "$blocked"
        ends_within 15 "$blocked" "a reader after umount $how"
        wait "$blocked" 2>/dev/null || true
        ends_within 15 "$pid" "the process of the mount after umount $how"
        no_mount_process "$mnt"
        echo "dead server: umount $how ended all"
        again
    done
    # And with bytes that were never written: they are lost, and the process still ends.
    mount_export "$mnt" "hard$more"
    pid=$(mount_pids "$mnt")
    # Opened before, by the writer alone: whoever has it open waits for the bytes when it closes it, also by its end.
    (until [ -e "$work/lost" ]; do sleep 0.1; done
    exec dd if=/dev/zero bs=1M count=64) >"$mnt/dir/lost" 2>"$work/blocked.err" &
    blocked=$!
    pids+=("$blocked")
    for _ in $(seq $((100 * roomy))); do [ ! -e "$export/dir/lost" ] || break; sleep 0.1; done
    kill_server
    touch "$work/lost"
    sleep 2
    kill -0 "$blocked" 2>/dev/null || fail "64 MiB are written without a server: $(cat "$work/blocked.err")"
    limited 15 umount -f "$mnt" 2>/dev/null || true
    ! is_mounted "$mnt" || limited 15 umount -l "$mnt" || fail "umount -l with a writer"
    kill -KILL "$blocked" 2>/dev/null || true
    ends_within 15 "$blocked" "a writer after umount -f"
    wait "$blocked" 2>/dev/null || true
    ends_within 20 "$pid" "the process of a mount with unwritten bytes"
    no_mount_process "$mnt"
}

# More writers than there is memory for, and a server that is dead: who is killed ends, and with umount -f the process.
dead_server_and_writers() {
    local pid i writers=()
    again
    mount_export "$mnt" "hard$more"
    pid=$(mount_pids "$mnt")
    mkdir "$export/many"
    for i in $(seq 40); do
        (until [ -e "$work/dead" ]; do sleep 0.1; done
        exec dd if=/dev/zero bs=1M count=64) >"$mnt/many/$i" 2>/dev/null &
        writers+=("$!")
    done
    pids+=("${writers[@]}")
    for _ in $(seq $((100 * roomy))); do [ "$(ls "$export/many" | wc -l)" -lt 40 ] || break; sleep 0.1; done
    kill_server
    touch "$work/dead"
    sleep 3
    for i in "${writers[@]}"; do kill -0 "$i" 2>/dev/null || fail "a writer of 64 MiB did not wait for the server"; done
    # One of many first: the others stay.
    kill -KILL "${writers[0]}"
    ends_within 10 "${writers[0]}" "one of 40 writers that was killed"
    kill -0 "${writers[1]}" 2>/dev/null || fail "another writer has ended"
    for i in "${writers[@]:1:38}"; do kill -KILL "$i"; done
    for i in "${writers[@]:0:39}"; do ends_within 15 "$i" "one of 39 writers that were killed"; done
    limited 15 umount -f "$mnt" 2>/dev/null || true
    ! is_mounted "$mnt" || limited 15 umount -l "$mnt" || fail "umount -l with writers"
    kill -KILL "${writers[39]}" 2>/dev/null || true
    ends_within 15 "${writers[39]}" "the last of 40 writers after umount -f"
    wait "${writers[@]}" 2>/dev/null || true
    ends_within 20 "$pid" "the process of a mount with 40 writers"
    no_mount_process "$mnt"
    echo "dead server: 40 writers ended"
}

# Pages that were stored to after close(2): no flush tells of them, and umount comes at once.
written_by_mmap() {
    local pid
    again
    mount_export "$mnt" "hard$more"
    pid=$(mount_pids "$mnt")
    python3 - "$mnt/mapped" <<'END' || fail "mmap"
import mmap, os, sys
SIZE = 48 << 20
fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o644)
os.ftruncate(fd, SIZE)
memory = mmap.mmap(fd, SIZE)
os.close(fd)
for at in range(0, SIZE, 1 << 16):
    memory[at:at + (1 << 16)] = b"%016d" % at * 4096
os._exit(0)
END
    umount "$mnt" || fail "umount after a map was written"
    ends_within 30 "$pid" "the process of a mount with bytes that nobody closed"
    python3 - "$export/mapped" <<'END' || fail "bytes that were stored to a map are lost by umount"
import sys
data = open(sys.argv[1], "rb").read()
sys.exit(data != b"".join(b"%016d" % at * 4096 for at in range(0, 48 << 20, 1 << 16)))
END
    end_serving
    echo "a map: its bytes outlive umount"
}

# B121: the process of the mount is killed.
process_killed() {
    local pid status=0
    again
    mount_export "$mnt" "hard$more"
    echo text >"$mnt/before"
    pid=$(mount_pids "$mnt")
    exec 8<"$mnt/before"
    kill -KILL "$pid"
    ends_within 10 "$pid" "the process of the mount"
    limited 10 ls "$mnt/" >/dev/null 2>"$work/err" || status=$?
    [ "$status" != 0 ] && [ "$status" != 124 ] || fail "B121: ls without a process: status $status"
    exec 8<&-
    limited 10 fusermount3 -u "$mnt" || fail "B121: fusermount3 -u after kill -9"
    ! is_mounted "$mnt" || fail "B121: still mounted"
    mount_export "$mnt" "hard$more"
    [ "$(cat "$mnt/before")" = text ] || fail "B121: mounted again, but no file"
    # SIGTERM ends it in order: what was written is at the server, and the directory is free.
    pid=$(mount_pids "$mnt")
    exec 8>"$mnt/last"
    echo last >&8
    kill -TERM "$pid"
    exec 8>&-
    ends_within 20 "$pid" "the process of the mount at SIGTERM"
    ! is_mounted "$mnt" || limited 10 umount "$mnt" || fail "umount after SIGTERM"
    [ "$(cat "$export/last")" = last ] || fail "SIGTERM lost what was written"
    # B117: what was unlinked while open is gone when the mount has ended.
    mount_export "$mnt" "hard$more"
    mkdir "$mnt/silly"
    exec 8>"$mnt/silly/open"
    rm "$mnt/silly/open"
    limited 15 umount -l "$mnt"
    exec 8>&-
    no_mount_process "$mnt"
    ! ours || [ -z "$(ls -A "$export/silly")" ] || fail "B117: left: $(ls -A "$export/silly")"
    end_serving
}

server_goes_and_comes
if ours; then
    idle
    soft_ends soft 'input/output error'
    soft_ends softerr 'timed out'
fi
if [ "$(id -u)" = 0 ]; then
    ! ours || dead_server
    ! ours || dead_server_and_writers
    written_by_mmap
    process_killed
fi
echo ok
