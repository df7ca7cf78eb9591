#!/usr/bin/env bash
# The command line of mount.nfsrdma, what mount(8) makes of it, and who may do what: mount_options.sh BIN [inside]
# Of root's run the most is inside a mount namespace, where /sbin and /etc/fstab may be the test's own.
BIN=$(realpath "$1")
source "$(dirname "$0")/mount_lib.sh"
needs_mount
[ "$mount_by" = nfsrdma ] || skip "fuse: mount.nfsrdma itself"
export_in tmpfs
chmod 1777 "$export"
serve server
program=$BIN/mount.nfsrdma
mnt=$work/mnt
mkdir "$mnt"
source_name=$host:/data
options_of() { awk -v dir="$1" '$2 == dir { print $4 }' /proc/self/mounts; }
has_option() { case ",$(options_of "$1")," in *",$2,"*) ;; *) fail "$2 is not in the options of $1: $(options_of "$1")" ;; esac; }

command_line() {
    refused 0 "$program" --help
    says 'usage' "$work/out"
    local option
    for option in rsize wsize port mountport mountproto hard soft softerr timeo retrans nconnect noac acregmin acregmax \
        acdirmin acdirmax actimeo nocto nordirplus bg fg retry noexec nosuid nodev allow_other \
        default_permissions device; do
        says "$option" "$work/out"
    done
    refused 0 "$program" -V
    grep -qE '[0-9]+\.[0-9]+' "$work/out" || fail "-V: $(cat "$work/out")"
    # Wrong usage: said by name, and nothing is mounted.
    refused 1 "$program"
    refused 1 "$program" "$source_name"
    refused 1 "$program" "$source_name" "$mnt" -o nonsense=1
    says "nonsense" "$work/err"
    refused 1 "$program" "$source_name" "$mnt" -o rsize=many
    says "rsize" "$work/err"
    refused 1 "$program" "$source_name" "$mnt" -o vers=4.1
    says "vers" "$work/err"
    refused 1 "$program" "$source_name" "$mnt" -o sec=krb5
    says "sec" "$work/err"
    refused 1 "$program" no-colon "$mnt"
    # -s: sloppy, what is unknown is passed over.
    refused 0 "$program" "$source_name" "$mnt" -s -o nonsense=1
    unmount "$mnt"
    # -f: fake, nothing is mounted.
    refused 0 "$program" -f "$source_name" "$mnt"
    ! is_mounted "$mnt" || fail "-f has mounted"
    refused 0 "$program" -n -v "$source_name" "$mnt" -o ro
    is_mounted "$mnt" || fail "-n -v has not mounted"
    unmount "$mnt"
    # What cannot be: no such directory here, no such export there, no server; status 32.
    refused "32 1" "$program" "$source_name" "$work/none"
    says "none" "$work/err"
    refused 32 "$program" "$host:/other" "$mnt"
    says "/other" "$work/err"
    refused 32 "$program" "$(address):/data" "$mnt" -o retry=0,timeo=20,retrans=1,soft
    [ -s "$work/err" ] || fail "nothing is said of a server that is not there"
    ! is_mounted "$mnt" || fail "a mount of nothing"
}

# Every option of nfs(5) that we know is taken, alone.
all_options() {
    local option
    for option in rsize=65536 wsize=32768 port=20049 mountproto=rdma proto=rdma vers=3 nfsvers=3 hard soft softerr timeo=100 \
        retrans=3 nconnect=2 loops=2 rw ac noac acregmin=1 acregmax=9 acdirmin=1 acdirmax=9 actimeo=2 cto nocto rdirplus \
        nordirplus nolock sec=sys intr nointr fg retry=1 noatime nosuid nodev noexec default_permissions device=softroce \
        $([ "$(id -u)" != 0 ] || echo allow_other); do  # a user's only where /etc/fuse.conf says so
        mount_export "$mnt" "$option"
        echo "$option" >"$mnt/by-option"
        [ "$(cat "$export/by-option")" = "$option" ] || fail "$option: what was written is not there"
        unmount "$mnt"
    done
    mount_export "$mnt" "rw,vers=3,proto=rdma,hard,rsize=1048576,wsize=1048576,nconnect=2,nolock,noatime"
    [ "$(awk -v dir="$mnt" '$2 == dir { print $1, $3 }' /proc/self/mounts)" = "$source_name fuse.nfsrdma" ] ||
        fail "/proc/mounts: $(grep "$mnt" /proc/self/mounts)"
    has_option "$mnt" noatime
    mount | grep -q "^$source_name on $mnt type fuse.nfsrdma" || fail "mount says: $(mount | grep "$mnt")"
    unmount "$mnt"
    # bg: returns at once, and mounts when the server is there.
    kill_server
    refused 0 "$program" "$source_name" "$mnt" -o bg,retry=2
    mounted+=("$mnt")
    sleep 1
    serve late
    for _ in $(seq $((600 * roomy))); do ! is_mounted "$mnt" || break; sleep 0.1; done
    is_mounted "$mnt" || fail "bg: not mounted after the server came"
    unmount "$mnt"
}

effects() {
    mkdir -p "$export/deep/er"
    echo inner >"$export/deep/file"
    mount_export "$mnt" ro
    has_option "$mnt" ro
    refused 1 touch "$mnt/new"
    says 'read-only' "$work/err"
    refused 1 rm "$mnt/deep/file"
    [ "$(cat "$mnt/deep/file")" = inner ] || fail "ro: cannot read"
    unmount "$mnt"
    mount_export "$mnt" "noexec,nosuid,nodev"
    has_option "$mnt" noexec
    has_option "$mnt" nosuid
    has_option "$mnt" nodev
    printf '#!/bin/sh\necho ran\n' >"$mnt/run"
    chmod 0755 "$mnt/run"
    refused 126 bash -c "'$mnt/run'"
    unmount "$mnt"
    mount_export "$mnt" ""
    [ "$("$mnt/run")" = ran ] || fail "a program does not run on a mount without noexec"
    unmount "$mnt"
    # A directory below the export, as nfs(5) has it; and slashes too many.
    refused 0 "$program" "$host:/data/deep" "$mnt"
    [ "$(cat "$mnt/file")" = inner ] || fail "a directory below the export"
    unmount "$mnt"
    # Two mounts of one export at once, and one on the other.
    mkdir "$work/second"
    mount_export "$mnt" ""
    mount_export "$work/second" "actimeo=1"
    echo both >"$mnt/both"
    [ "$(cat "$work/second/both")" = both ] || fail "two mounts: not the same"
    unmount "$work/second"
    unmount "$mnt"
}

# -f of the process itself has no place in mount.nfs; where the mount ends in the foreground is umount.
# calls PROCEDURE: of the mount, so far.
calls() { limited 30 "$BIN/nfsrdma" stats "$mnt" | awk -v name="$1:" '$1 == name { print $2 }'; }
# No WRITE and no READ is longer than was asked for.
sizes() {
    mount_export "$mnt" "rsize=65536,wsize=32768"
    dd if=/dev/zero of="$mnt/sized" bs=1M count=4 conv=fsync status=none
    [ "$(calls WRITE)" -ge 128 ] || fail "wsize=32768: $(calls WRITE) WRITEs of 4 MiB"
    unmount "$mnt"
    mount_export "$mnt" "rsize=65536,wsize=32768"
    cmp -n 4194304 "$mnt/sized" /dev/zero
    [ "$(calls READ)" -ge 64 ] || fail "rsize=65536: $(calls READ) READs of 4 MiB"
    rm "$mnt/sized"
    unmount "$mnt"
}

statistics() {
    mount_export "$mnt" ""
    echo hello >"$mnt/for-stats"
    limited 30 "$BIN/nfsrdma" stats "$mnt" >"$work/stats" 2>&1 || { cat "$work/stats" >&2; fail "nfsrdma stats"; }
    says 'xprt' "$work/stats"
    says 'WRITE: [1-9]' "$work/stats"
    says "mounted on $mnt" "$work/stats"
    limited 30 "$BIN/nfsrdma" stats --json "$mnt" >"$work/stats" 2>&1 || { cat "$work/stats" >&2; fail "nfsrdma stats --json"; }
    python3 -c 'import json, sys; json.load(sys.stdin)' <"$work/stats" || fail "nfsrdma stats --json is no JSON"
    unmount "$mnt"
}

# mount(8) finds the helper in /sbin, and fstab's line is enough. In a mount namespace of its own.
by_mount_8() {
    export BIN work source_name
    mounted+=("$work/at")
    limited 100 unshare --mount --propagation private bash -euo pipefail -c '
        mkdir "$work/sbin" "$work/old" "$work/at"
        mount --bind /usr/sbin "$work/old"
        ln -s "$work"/old/* "$work/sbin/"
        ln -sf "$BIN/mount.nfsrdma" "$work/sbin/mount.nfsrdma"
        mount --bind "$work/sbin" /usr/sbin
        [ -e /sbin/mount.nfsrdma ] || mount --bind "$work/sbin" /sbin
        mount -t nfsrdma "$source_name" "$work/at" -o ro,noatime
        grep -q "^$source_name $work/at fuse.nfsrdma ro" /proc/self/mounts
        test -f "$work/at/run"
        umount "$work/at"
        mount -v -t nfsrdma -o rw,hard,nconnect=2 "$source_name" "$work/at"
        echo by-mount >"$work/at/by-mount"
        umount -f "$work/at"
        ! mount -t nfsrdma -o nonsense "$source_name" "$work/at" 2>"$work/nonsense" || exit 1
        grep nonsense "$work/nonsense"
        echo "$source_name $work/at nfsrdma rw,noauto,_netdev,nofail,timeo=600,x-systemd.automount 0 0" >"$work/fstab"
        mount --bind "$work/fstab" /etc/fstab
        mount "$work/at"
        grep "$work/at" /proc/self/mounts
        [ "$(cat "$work/at/by-mount")" = by-mount ]
        umount "$work/at"
        echo "$source_name $work/at nfsrdma ro 0 0" >"$work/fstab"
        mount -a -t nfsrdma
        ! touch "$work/at/by-mount" 2>/dev/null || exit 1
        umount "$work/at"
    ' >"$work/mount8" 2>&1 || { cat "$work/mount8" >&2; fail "mount -t nfsrdma"; }
    no_mount_process
}

# An ordinary user's own mount, by fusermount3; B122: where root may not look.
by_a_user() {
    local user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    install -d -o 65534 -g 65534 -m 0700 "$work/user" "$work/user/private"
    as_user=("${user[@]}")
    mounted+=("$work/user/private/at")
    "${user[@]}" mkdir "$work/user/private/at"
    mount_export "$work/user/private/at" ""
    limited 30 "${user[@]}" bash -c "echo mine >'$work/user/private/at/mine' && cat '$work/user/private/at/mine'" >"$work/out" ||
        fail "a user cannot write on its own mount"
    [ "$(stat -c %u:%g "$export/mine")" = 65534:65534 ] || fail "a user's file is of $(stat -c %u:%g "$export/mine")"
    # FUSE: of nobody else, not even root, unless /etc/fuse.conf says otherwise.
    refused "1 2" ls "$work/user/private/at/"
    unmount "$work/user/private/at"
    refused "1 32" "${user[@]}" "$program" "$source_name" "$mnt"
    [ -s "$work/err" ] || fail "nothing is said to a user of a directory that is not its own"
    as_user=()
    # Nested: the directory is on a mount whose server takes root for nobody.
    mkdir "$work/squashed" "$work/outer"
    chown 65534:65534 "$work/squashed"
    local outer_host
    outer_host=$(address)
    local first_server=$server_pid
    start_server squash --listen "$outer_host" --export "$work/squashed=/squashed:rw,root_squash"
    mounted+=("$work/outer")
    limited 60 "$program" "$outer_host:/squashed" "$work/outer" || fail "the outer mount"
    install -d -o 1 -g 1 -m 0700 "$work/squashed/home" "$work/squashed/home/at"
    as_user=(setpriv --reuid=1 --regid=1 --clear-groups)  # fusermount3 wants one that has a name
    mounted+=("$work/outer/home/at")
    local status=0
    limited 60 "${as_user[@]}" "$program" "$source_name" "$work/outer/home/at" 2>"$work/err" || status=$?
    if [ $status = 0 ]; then
        status=0
        limited 60 "${as_user[@]}" fusermount3 -u "$work/outer/home/at" 2>"$work/err" || status=$?
        [ $status = 0 ] || { [ -s "$work/err" ] || fail "B122: no reason"; echo "B122: fusermount3 says: $(cat "$work/err")"; }
        ! is_mounted "$work/outer/home/at" || limited 60 umount "$work/outer/home/at" || detach "$work/outer/home/at"
    else
        [ -s "$work/err" ] || fail "B122: mounting failed without a word"
        echo "B122: mounting there is refused: $(head -n 1 "$work/err")"
    fi
    as_user=()
    unmount "$work/outer"
    stop_server
    server_pid=$first_server server_log=$work/late.log
}

# B111: three users on root's mount.
three_users() {
    local uid user
    mount_export "$mnt" ""
    for uid in 3000 3001 3002; do
        user=(setpriv --reuid=$uid --regid=$((uid + 50)) --groups=$((uid + 100)))
        limited 30 "${user[@]}" bash -c "umask 027; cd '$mnt' && touch u$uid && mkdir d$uid && echo $uid >d$uid/f && ln -s x l$uid && touch -d 2001-01-01 u$uid" ||
            fail "B111: user $uid"
        [ "$(stat -c %u:%g:%a "$export/u$uid")" = "$uid:$((uid + 50)):640" ] || fail "B111: $(stat -c %u:%g:%a "$export/u$uid") of $uid"
        [ "$(stat -c %u:%g:%a "$export/d$uid")" = "$uid:$((uid + 50)):750" ] || fail "B111: $(stat -c %u:%g:%a "$export/d$uid") of d$uid"
        [ "$(stat -c %u:%g:%a "$mnt/d$uid/f")" = "$uid:$((uid + 50)):640" ] || fail "B111: the mount says $(stat -c %u:%g:%a "$mnt/d$uid/f")"
        [ "$(stat -c %u:%g "$export/l$uid")" = "$uid:$((uid + 50))" ] || fail "B111: the link is of $(stat -c %u:%g "$export/l$uid")"
    done
    # Not by another, who is told so; by one of the group, reading.
    refused 1 setpriv --reuid=3001 --regid=3051 --clear-groups cat "$mnt/d3000/f"
    refused 1 setpriv --reuid=3001 --regid=3051 --clear-groups cat "$mnt/u3000"
    says 'denied' "$work/err"
    refused 0 setpriv --reuid=3001 --regid=3001 --groups=7,8,3050 cat "$mnt/u3000"
    refused 1 setpriv --reuid=3001 --regid=3001 --groups=7,8,3050 touch "$mnt/u3000"
    refused 1 setpriv --reuid=3001 --regid=3051 --clear-groups rm -f "$mnt/u3000"
    # What one has read lets no other in, although it is in the cache.
    setpriv --reuid=3000 --regid=3050 --clear-groups cat "$mnt/d3000/f" >/dev/null
    refused 1 setpriv --reuid=3002 --regid=3052 --clear-groups cat "$mnt/d3000/f"
    refused 0 setpriv --reuid=3000 --regid=3050 --clear-groups chmod 0604 "$mnt/u3000"
    refused 0 setpriv --reuid=3001 --regid=3051 --clear-groups cat "$mnt/u3000"
    unmount "$mnt"
}

# B104: a full server is told at write, fsync or close.
full() {
    local small=$work/small begin how status
    mkdir "$small"
    mount -t tmpfs -o size=2m none "$small"
    mounted+=("$small")
    local first_server=$server_pid first_log=$server_log full_host
    full_host=$(address)
    start_server full --listen "$full_host" --export "$small=/data:rw,no_root_squash"
    head -c 7340032 /dev/urandom >"$work/seven"
    refused 0 "$program" "$full_host:/data" "$mnt"
    for how in "cp $work/seven $mnt/f" "dd if=$work/seven of=$mnt/f bs=1M" "dd if=$work/seven of=$mnt/f bs=4k conv=fsync" \
        "dd if=$work/seven of=$mnt/f bs=1M oflag=direct"; do
        begin=$(date +%s)
        refused 1 $how
        says 'no space' "$work/err"
        [ "$(seconds_since "$begin")" -lt $((5 * roomy)) ] || fail "B104: $how took $(seconds_since "$begin") s"
        rm -f "$mnt/f"
    done
    # The mount lives on, and so does the next file.
    echo fits >"$mnt/fits"
    [ "$(cat "$small/fits")" = fits ] || fail "B104: a small file after that"
    unmount "$mnt"
    stop_server
    umount "$small"
    server_pid=$first_server server_log=$first_log
}

command_line
all_options
effects
sizes
statistics
if [ "$(id -u)" = 0 ]; then
    by_mount_8
    three_users
    full
    by_a_user
fi
end_serving
echo ok
