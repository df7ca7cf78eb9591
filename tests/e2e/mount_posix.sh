#!/usr/bin/env bash
# The file-system programs on a mount: mount_posix.sh BIN PROGRAM [--on FOLDER|tmpfs] [--serve ARGUMENT] ... [--mount OPTIONS] [-- ARGUMENT...]
#   posix   nfsrdma_posix, every system call and its errors
#   fsx     nfsrdma_fsx, random operations on a file, each byte compared; ARGUMENTS: OPERATIONS [SEED]
#   many    nfsrdma_many, 16 processes at once; ARGUMENTS: SECONDS [SEED]
#   two     nfsrdma_two_mounts, what one mount writes another sees
BIN=$1
program=$2
shift 2
source "$(dirname "$0")/mount_lib.sh"
on=tmpfs options= arguments=() serving=()
while [ $# -gt 0 ]; do
    case $1 in
        --on) on=$2; shift ;;
        --serve) serving+=("$2"); shift ;;
        --mount) options=$2; shift ;;
        --) shift; arguments=("$@"); break ;;
        *) fail "usage: see mount_posix.sh" ;;
    esac
    shift
done
needs_mount
export_in "$on"
serve server "${serving[@]}"
mnt=$work/mnt
both() { echo "$1${options:+,$options}"; }

run() { # SECONDS PROGRAM ARGUMENT...
    local status=0 seconds=$1
    shift
    limited "$seconds" "$BIN/$1" "${@:2}" >"$work/run" 2>&1 || status=$?
    tail -n 5 "$work/run"
    [ "$status" = 0 ] || {
        head -n 60 "$work/run" >&2
        [ -z "$server_pid" ] || tail -n 20 "$server_log" >&2
        fail "$*: status $status"
    }
}
# What the export has when all is unmounted: no silly name, no file that was left by what cleans up after itself.
nothing_silly() {
    local left
    left=$(find "$export" -name '.nfs*' -o -name '.fuse_hidden*' | head -n 5)
    [ -z "$left" ] || fail "left at the server: $left"
}

case $program in
    posix)
        mount_export "$mnt" "$options"
        mkdir "$mnt/in"
        chmod 0755 "$mnt/in"
        flags=(--patience $((60 * roomy)) --nfs)
        [ "$mount_by" != bindfs ] || flags=(--patience $((60 * roomy)))
        run 240 nfsrdma_posix "$mnt/in" "${flags[@]}" "${arguments[@]}"
        ;;
    fsx)
        operations=${arguments[0]:-20000} seed=${arguments[1]:-$((RANDOM * 32768 + RANDOM))}
        seconds=$((60 + operations / 100))
        mount_export "$mnt" "$options"
        run $seconds nfsrdma_fsx "$mnt/mapped" --seed "$seed" --operations "$operations"
        run $seconds nfsrdma_fsx "$mnt/plain" --seed $((seed + 1)) --operations "$operations" --no-mmap
        run $seconds nfsrdma_fsx "$mnt/direct" --seed $((seed + 2)) --operations $((operations / 4)) --no-mmap --direct
        ;;
    many)
        seconds=${arguments[0]:-10} seed=${arguments[1]:-$((RANDOM * 32768 + RANDOM))}
        mount_export "$mnt" "$options"
        mkdir "$mnt/in"
        run $((seconds * 2 + 60)) nfsrdma_many "$mnt/in" --processes 16 --seconds "$seconds" --seed "$seed"
        ;;
    two)
        mkdir "$work/other"
        mount_export "$mnt" "$(both actimeo=1)"
        mount_export "$work/other" "$(both actimeo=1)"
        mkdir "$mnt/in"
        sleep 1.5
        run 300 nfsrdma_two_mounts "$mnt/in" "$work/other/in" "${arguments[@]}"
        unmount "$work/other"
        ;;
    *) fail "no such program: $program" ;;
esac
unmount "$mnt"
nothing_silly
end_serving
echo ok
