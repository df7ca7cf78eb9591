#!/usr/bin/env bash
# Attributes and directories on a mount, beyond what nfsrdma_posix asks: directories of all sizes and what they cost, listings
# while others change them, links of all lengths, who may do what: mount_attributes.sh BIN [OPTIONS OF THE MOUNT]
BIN=$(realpath "$1")
source "$(dirname "$0")/mount_lib.sh"
needs_mount
export_in tmpfs
chmod 1777 "$export"
serve server
mnt=$work/mnt
options=${2:-}
remount() { # [OPTIONS]
    ! is_mounted "$mnt" || unmount "$mnt"
    mount_export "$mnt" "$(paste -sd, <<<"$(printf '%s\n' $options ${1:-})")"
}
is() { [ "$2" = "$3" ] || fail "$1: '$3', not '$2'"; }
at_most() { [ "$3" -le "$2" ] || fail "$1: $3, not $2 at most"; }
# fails_with TEXT COMMAND...: the system's words for the error.
fails_with() {
    local want=$1
    shift
    ! LC_ALL=C limited 30 "$@" >"$work/out" 2>"$work/err" || fail "$*: no error, not '$want'"
    grep -q "$want" "$work/err" || fail "$*: $(cat "$work/err"), not '$want'"
}
# calls PROCEDURE: how many there have been; of several their sum.
calls() {
    limited 30 "$BIN/nfsrdma" stats "$mnt" >"$work/stats" || fail "nfsrdma stats $mnt"
    local procedure sum=0
    for procedure in "$@"; do sum=$((sum + $(awk -v name="$procedure:" '$1 == name { print $2 }' "$work/stats"))); done
    echo "$sum"
}
fill() { # DIRECTORY COUNT
    mkdir "$export/$1"
    [ "$2" = 0 ] || (cd "$export/$1" && seq -f 'entry-with-a-name-%06.0f' 1 "$2" | xargs -n 2000 touch)
}

# Cases B79 and B81: each name once, with attributes and without.
sizes() {
    local count
    for count in 0 1 100 2500 20000; do
        fill "of-$count" "$count"
        ls -f "$export/of-$count" | sort >"$work/want"
        for how in "ls -f" "ls -U" "find" "ls -lU"; do
            limited 120 $how "$mnt/of-$count" >"$work/list" || fail "$how of $count entries"
            is "$how of $count" "$count" "$(grep -c entry-with-a-name "$work/list")"
            is "$how of $count, twice" "" "$(grep -o 'entry-with-a-name-[0-9]*' "$work/list" | sort | uniq -d)"
        done
        ls -f "$mnt/of-$count" | sort | cmp - "$work/want" || fail "names of $count entries"
    done
}

# A listing with attributes asks for nothing but the listing, and uses all that it is told (case B129).
economy() {
    [ "$mount_by" = nfsrdma ] || return 0
    fill cost 5000
    remount
    local before after told now
    before=$(calls LOOKUP GETATTR ACCESS)
    told=$(calls READDIRPLUS READDIR)
    limited 60 ls -lU "$mnt/cost" >"$work/list"
    is "entries" 5001 "$(wc -l <"$work/list")"
    after=$(calls LOOKUP GETATTR ACCESS)
    at_most "calls beside the listing of 5000 entries" 20 $((after - before))
    now=$(calls READDIRPLUS READDIR)
    told=$((now - told))
    # Some 64 KiB a reply, of entries of 200 bytes at least.
    at_most "replies for a listing of 5000 entries" 25 "$told"
    [ "$told" -ge 5 ] || fail "5000 entries by $told calls: they are not counted"
    before=$after
    limited 60 find "$mnt/cost" -type f >"$work/list"
    is "files" 5000 "$(wc -l <"$work/list")"
    after=$(calls LOOKUP GETATTR ACCESS)
    at_most "calls to see what is a file" 20 $((after - before))
    remount noac
    limited 60 ls -lU "$mnt/cost" >"$work/list"
    is "entries with noac" 5001 "$(wc -l <"$work/list")"
    remount nordirplus
    told=$(calls READDIRPLUS)
    limited 60 ls -lU "$mnt/cost" >"$work/list"
    is "entries with nordirplus" 5001 "$(wc -l <"$work/list")"
    now=$(calls READDIRPLUS)
    is "READDIRPLUS calls with nordirplus" "$told" "$now"
    now=$(calls READDIR)
    [ "$now" -ge 3 ] || fail "5000 entries with nordirplus by $now calls of READDIR"
    remount
}

# Names come and go, by this mount and at the server: whoever stays is listed, once (cases B81, B82).
changes() {
    fill changing 20000
    local where pid round
    for where in "$export" "$mnt"; do
        (
            i=0
            while [ ! -e "$work/enough" ]; do
                i=$((i + 1))
                : >"$where/changing/comes-$i"
                : >"$where/changing/stays-not-$i"
                rm -f "$where/changing/comes-$i" "$where/changing/stays-not-$((i - 3))"
            done
            rm -f "$where"/changing/stays-not-*
        ) &
        pid=$!
        pids+=("$pid")
        for round in 1 2; do
            limited 120 ls -U "$mnt/changing" >"$work/list" || fail "ls during changes"
            is "ls during changes" 20000 "$(grep -c entry-with-a-name "$work/list")"
            is "ls during changes, twice" "" "$(grep entry-with-a-name "$work/list" | sort | uniq -d)"
            limited 200 ls -lU "$mnt/changing" >"$work/list" 2>/dev/null || true  # what went meanwhile is an error
            is "ls -l during changes" 20000 "$(grep -c entry-with-a-name "$work/list")"
        done
        : >"$work/enough"
        wait "$pid" || fail "changes by $where"
        rm "$work/enough"
    done
    # Half of it goes while it is listed, and then the rest.
    (cd "$mnt/changing" && limited 120 find . -name '*[02468]' -delete) || fail "find -delete"
    is "left over" 10000 "$(ls "$mnt/changing" | wc -l)"
    limited 120 rm -r "$mnt/changing" || fail "rm -r"
    [ ! -e "$export/changing" ] || fail "rm -r left something"
}

# A name that was taken away by this mount is gone, though a listing that is older says otherwise.
gone() {
    fill gone 1000
    local name
    ls -lU "$mnt/gone" >"$work/list"
    for name in $(seq -f 'entry-with-a-name-%06.0f' 1 50); do
        ls -lU "$mnt/gone" >"$work/list" 2>/dev/null &
        rm "$mnt/gone/$name"
        [ ! -e "$mnt/gone/$name" ] || fail "$name is still there"
        wait $! || true  # what was listed, and gone when it was looked at, is an error
        [ ! -e "$mnt/gone/$name" ] || fail "$name is there again"
    done
}

# Case B107.
links() {
    mkdir "$export/links"
    local length text
    for length in $(seq 1 64) 255 1023 4095; do
        text=$(head -c "$length" /dev/zero | tr '\0' 't')
        ln -s "$text" "$mnt/links/$length"
        is "link of $length" "$text" "$(readlink "$export/links/$length")"
    done
    remount
    for length in $(seq 1 64) 255 1023 4095; do
        text=$(head -c "$length" /dev/zero | tr '\0' 't')
        is "link of $length" "$text" "$(readlink "$mnt/links/$length")"
    done
    fails_with "Not a directory\|Invalid argument\|No such file" cat "$mnt/links/64"
}

numbers() {
    is "free blocks" "$(stat -f -c %T "$export" >/dev/null; df -P -B 4096 "$export" | awk 'END { print $2 }')" \
        "$(df -P -B 4096 "$mnt" | awk 'END { print $2 }')"
    is "length of names" 255 "$(stat -f -c %l "$mnt")"
    : >"$mnt/f"
    is "number of a file" "$(stat -c %i "$export/f")" "$(stat -c %i "$mnt/f")"
    is "number in a listing" "$(stat -c %i "$export/f")" "$(ls -i "$mnt" | awk '$2 == "f" { print $1 }')"
    head -c 100000 /dev/zero >"$mnt/f"
    is "size at once" 100000 "$(stat -c %s "$mnt/f")"
    ln "$mnt/f" "$mnt/other"
    echo more >>"$mnt/f"
    is "both names are one file (case B112)" "100005 2" "$(stat -c '%s %h' "$mnt/other")"
    touch -d '2100-01-02 03:04:05 UTC' "$mnt/f"
    is "a time beyond 2038" 4102542245 "$(stat -c %Y "$mnt/other")"
    rm "$mnt/f" "$mnt/other"
}

# Data on its way when attributes are set, as cp -p, tar and install do.
set_over_data() {
    local round
    for round in 1 2 3; do
        head -c 3000000 /dev/urandom >"$work/data"
        touch -d '2001-02-03 04:05:06 UTC' "$work/data"
        chmod 0640 "$work/data"
        cp -p "$work/data" "$mnt/copy"
        is "time of a copy" "$(stat -c '%y %a %s' "$work/data")" "$(stat -c '%y %a %s' "$mnt/copy")"
        is "time at the server" "$(stat -c '%y %a %s' "$work/data")" "$(stat -c '%y %a %s' "$export/copy")"
        cmp "$work/data" "$mnt/copy" || fail "a copy differs"
        truncate -s 1000 "$mnt/copy"
        is "truncated" 1000 "$(stat -c %s "$export/copy")"
        truncate -s 5000 "$mnt/copy"
        (head -c 1000 "$work/data"; head -c 4000 /dev/zero) | cmp - "$mnt/copy" || fail "what truncate left"
    done
    rm "$mnt/copy"
}

# Who may read a directory: where the kernel looks, and where it does not and the server is asked.
rights() {
    [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || return 0
    mkdir -m 0700 "$export/own"
    mkdir -m 0711 "$export/through"
    : >"$export/through/f"
    local as=(setpriv --reuid 3000 --regid 3050 --clear-groups)
    fails_with "Permission denied" "${as[@]}" ls "$mnt/own"
    fails_with "Permission denied" "${as[@]}" ls "$mnt/through"
    limited 30 "${as[@]}" ls -l "$mnt/through/f" >/dev/null || fail "what may be passed through"
    ! limited 30 "${as[@]}" test -r "$mnt/through" || fail "may be read"
    limited 30 "${as[@]}" test -x "$mnt/through" || fail "may not be passed through"
    chown 3000:3050 "$mnt/own"
    limited 30 "${as[@]}" ls "$mnt/own" >/dev/null || fail "the owner may not read"
    fails_with "Operation not permitted" "${as[@]}" chown 0 "$mnt/own"
    fails_with "not supported" python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.x", b"y")' "$mnt/through/f"
    chmod 0755 "$export/through"
    rm -r "$export/own" "$export/through"
}

remount
sizes
economy
changes
gone
links
numbers
set_over_data
rights
if [ "$mount_by" = nfsrdma ]; then
    remount no_default_permissions
    rights
fi
unmount "$mnt"
end_serving
echo "attributes and directories of a mount: ok"
