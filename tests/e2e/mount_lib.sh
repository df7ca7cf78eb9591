# Shared by the tests of mount.nfsrdma: sourced, not run. The caller sets BIN; what is mounted is used only from other processes
# than the one that mounts. NR_MOUNT_BY=bindfs puts bindfs in the mount's place, which tests these scripts and nothing of ours.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mount_by=${NR_MOUNT_BY:-nfsrdma}
mounted=()     # directories, for the end
served_by=()   # the folder of the export, where it is not in $work
host=$(address)
roomy=${NR_MOUNT_ROOM:-1}  # how much longer than on a quiet machine all may take
# With sanitizers all takes longer, and memory.
! grep -qE '__[at]san_init' "$BIN/nfsrdmad" || roomy=$((roomy * 4))

# What a sanitizer says of a mount that is in the background, where nobody reads it, is kept. As whoever mounts.
mkdir -m 1777 "$work/reports"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}log_path=$work/reports/san"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:+$UBSAN_OPTIONS:}log_path=$work/reports/san"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}log_path=$work/reports/san"
# no_reports: prints what sanitizers have said, and fails.
no_reports() {
    local report found=0
    for report in "$work/reports"/san.*; do
        [ -s "$report" ] || continue
        found=1
        echo "== ${report##*/}" >&2
        head -n 100 "$report" >&2
    done
    [ $found = 0 ]
}

# limited SECONDS COMMAND...: ends it by SIGKILL when SIGTERM does not.
limited() { timeout -k 5 $(($1 * roomy)) "${@:2}"; }

# Processes of the mounts of this test, by the folder that is theirs alone.
mount_pids() { # [DIR]
    local file pid line
    for file in /proc/[0-9]*/cmdline; do
        pid=${file#/proc/}
        pid=${pid%/cmdline}
        case $(cat "/proc/$pid/comm" 2>/dev/null) in mount.nfsrdma | bindfs) ;; *) continue ;; esac
        line=$(cat "$file" 2>/dev/null | tr '\0' ' ') || continue
        case $line in *" ${1:-$work/}"*) echo "$pid" ;; esac
    done
}
is_mounted() { grep -q " $1 " /proc/self/mounts; }
# How a mount leaves when it has to.
detach() { # DIR
    umount -l "$1" 2>/dev/null || fusermount3 -uz "$1" 2>/dev/null || true
}
# A mount that answers nobody blocks even SIGKILL of who waits on it. A minute before the time of this test is over (NR_TIMEOUT, in
# seconds) the processes of its mounts are ended: the kernel fails then what waits, and the test says which that was.
watch_over() {
    local pid task
    while kill -0 $$ 2>/dev/null; do
        read -r -t 1 -u "$never" _ || true
        [ $SECONDS -ge $((NR_TIMEOUT - 60)) ] || continue
        for pid in $(mount_pids); do
            echo "FAILED: the time is over: the mount's process $pid is ended, which was in" >&2
            for task in "/proc/$pid/task"/*; do echo "  $(cat "$task/comm" "$task/wchan" 2>/dev/null | xargs)" >&2; done
            kill -KILL "$pid" 2>/dev/null || true
        done
    done
}
watchdog=
if [ "${NR_TIMEOUT:-0}" -gt 60 ]; then
    mkfifo "$work/never"
    exec {never}<>"$work/never"  # a wait without a process that would outlive this one
    watch_over &
    watchdog=$!
    disown "$watchdog"
fi

mount_cleanup() {
    local dir pid status=$?
    [ -z "$watchdog" ] || kill "$watchdog" 2>/dev/null || true
    for dir in "${mounted[@]}"; do ! is_mounted "$dir" || detach "$dir"; done
    # A server that was stopped answers nobody, itself not even SIGTERM.
    for pid in "${pids[@]}"; do kill -CONT "$pid" 2>/dev/null || true; done
    for pid in $(mount_pids); do kill -KILL "$pid" 2>/dev/null || true; done
    while read -r dir; do detach "$dir"; done < <(awk -v work="$work/" 'index($2, work) == 1 { print $2 }' /proc/self/mounts)
    if grep -q " $work/" /proc/self/mounts; then
        echo "mounts are left below $work" >&2
        for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
        return
    fi
    for dir in "${served_by[@]}"; do rm -rf --one-file-system "$dir"; done
    # Those that have ended: a process that is killed says nothing.
    no_reports || [ $status != 0 ] || { echo "FAILED: a sanitizer's report" >&2; status=1; }
    cleanup
    exit $status
}
trap mount_cleanup EXIT
trap 'exit 143' TERM INT

# needs_mount: skips where there is no FUSE, or no mount in this build.
needs_mount() {
    [ -e /dev/fuse ] || skip "fuse: /dev/fuse"
    (exec 3<>/dev/fuse) 2>/dev/null || skip "fuse: to open /dev/fuse"
    if [ "$mount_by" = bindfs ]; then
        command -v bindfs >/dev/null || skip "fuse: bindfs"
    elif [ ! -x "$BIN/mount.nfsrdma" ]; then
        skip "fuse: mount.nfsrdma, which is built where libfuse3 is there"
    fi
    command -v fusermount3 >/dev/null || skip "fuse: fusermount3 (package fuse3)"
    # What is mounted is seen by whoever may mount: refused in most containers.
    if [ "$(id -u)" = 0 ]; then
        mkdir -p "$work/may-mount"
        mount -t tmpfs none "$work/may-mount" 2>/dev/null || skip "fuse: to mount, which is refused here"
        umount "$work/may-mount"
        rmdir "$work/may-mount"
    fi
    chmod 0755 "$work"
}
needs_program() { # PROGRAM...
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || { echo "needs root: to install $program"; exit 77; }
    done
}

# export_in FOLDER: makes the directory that is exported, on the file system of FOLDER; it is in export.
export_in() {
    if [ "${1:-}" = "" ] || [ "$1" = tmpfs ]; then
        export=$work/export
        mkdir "$export"
    else
        export=$(mktemp -d "$1/nfsrdma-mount.XXXXXX")
        served_by+=("$export")
        chmod 0755 "$export"
    fi
}

# serve NAME ARGUMENT...: nfsrdmad with $export as /data at $host; again and again with the same handles. With bindfs nobody serves.
serve() {
    local name=$1
    shift
    [ "$mount_by" != bindfs ] || { server_pid=; return 0; }
    start_server "$name" --listen "$host" --export "$export=/data:rw,no_root_squash" --handle-key "$work/key" \
        --state-dir "$work/state" "$@"
}
end_serving() { [ -z "$server_pid" ] || stop_server; }
kill_server() {
    [ -n "$server_pid" ] || return 0
    kill -KILL "$server_pid"
    wait "$server_pid" 2>/dev/null || true
    pids=("${pids[@]/$server_pid/}")
    pids=(${pids[@]})
}

# mount_command DIR [OPTIONS]: what mounts the export there; in command.
mount_command() {
    if [ "$mount_by" = bindfs ]; then
        command=(bindfs)
        [ "$(id -u)" = 0 ] && [ -z "${as_user[*]:-}" ] || command+=(--no-allow-other)
        case ",${2:-}," in *,ro,*) command+=(-o ro) ;; esac
        command+=("$export" "$1")
    else
        command=("$BIN/mount.nfsrdma" "$host:/data" "$1")
        [ -z "${2:-}" ] || command+=(-o "$2")
    fi
}
# mount_export DIR [OPTIONS]: mounts it, or fails; it is there when this returns. As the command in as_user, if one is set.
as_user=()
mount_export() {
    local status=0
    mkdir -p "$1"
    mount_command "$@"
    mounted+=("$1")
    limited 60 "${as_user[@]}" "${command[@]}" >"$work/mount.out" 2>"$work/mount.err" </dev/null || status=$?
    [ "$status" = 0 ] || { cat "$work/mount.out" "$work/mount.err" >&2; fail "${command[*]}: status $status"; }
    is_mounted "$1" || { cat "$work/mount.err" >&2; fail "$1 is not mounted when ${command[0]} returns"; }
}
# no_mount_process [DIR]: ends the test when processes of mounts are left after 30 seconds.
no_mount_process() {
    local left=
    for _ in $(seq $((300 * roomy))); do
        left=$(mount_pids "$@")
        [ -n "$left" ] || { no_reports || fail "a sanitizer's report"; return 0; }
        sleep 0.1
    done
    ps -o pid,stat,wchan:30,args -p "$(paste -sd, <<<"$left")" >&2
    fail "the process of a mount is left after its end"
}
unmount() { # DIR
    local status=0
    if [ "$(id -u)" = 0 ] && [ -z "${as_user[*]:-}" ]; then
        limited 60 umount "$1" 2>"$work/umount.err" || status=$?
    else
        limited 60 "${as_user[@]}" fusermount3 -u "$1" 2>"$work/umount.err" || status=$?
    fi
    [ "$status" = 0 ] || {
        cat "$work/umount.err" >&2
        command -v fuser >/dev/null && fuser -vm "$1" >&2
        fail "umount $1: status $status"
    }
    ! is_mounted "$1" || fail "$1 is still mounted"
    no_mount_process "$1"
}

# says TEXT FILE: the file has it.
says() { grep -qi -- "$1" "$2" || { cat "$2" >&2; fail "nothing about '$1'"; }; }
# refused STATUS COMMAND...: ends with that status; what it says is in $work/err.
refused() {
    local want=$1 got=0
    shift
    limited 60 "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
    case " $want " in *" $got "*) ;; *) cat "$work/out" "$work/err" >&2; fail "$*: status $got, not $want" ;; esac
}
seconds_since() { echo $(($(date +%s) - $1)); }
