# A row whose client is the Linux kernel's. The caller sets: address, the server's; options, more mount options; export, the
# directory that is served as /export, seen from here; mnt, where it is mounted.

mount_it() {
    mkdir -p "$mnt"
    mount -v -t nfs -o "rdma,vers=3,nolock,hard,mountproto=tcp,$options" "$address:/export" "$mnt"
    grep -q "$mnt.*proto=rdma" /proc/mounts || fail "not mounted by RDMA"
}
umount_it() { umount "$mnt"; }
# What was written comes from the server, not from the cache.
remount() { umount_it && mount_it; }

mount_puts() { cp -r "$scratch/files" "$mnt/files" && sync -f "$mnt"; }
mount_lists() {
    make_names "$export/names"
    ls "$mnt/names" | cmp - <(ls "$export/names") || fail "names differ"
    equal "$(ls -l "$mnt/names" | grep -c name-)" 2000 "lines of ls -l"
}
mount_links() {
    cp -r "$scratch/links" "$mnt/links"
    links_of "$export/links" | cmp - "$scratch/links.list" || fail "links at the server differ"
    echo 2 >/proc/sys/vm/drop_caches
    links_of "$mnt/links" | cmp - "$scratch/links.list" || fail "links that came back differ"
}
mount_renames() {
    mkdir "$mnt/there"
    mv "$mnt/files/4KiB" "$mnt/there/renamed"
    cmp "$scratch/files/4KiB" "$export/there/renamed"
    [ ! -e "$export/files/4KiB" ] || fail "the old name is still there"
}
mount_hard_links() {
    ln "$mnt/files/64KiB+1" "$mnt/there/linked"
    equal "$(stat -c %h:%i "$export/there/linked")" "2:$(stat -c %i "$export/files/64KiB+1")" "links and inode"
}
mount_sparse() {
    printf end | dd of="$mnt/sparse" bs=1 seek=5368709117 conv=notrunc status=none
    equal "$(stat -c %s "$export/sparse")" 5368709120 size
    [ "$(stat -c %b "$export/sparse")" -le 64 ] || fail "$(stat -c %b "$export/sparse") blocks"
    equal "$(dd if="$mnt/sparse" bs=1 skip=5368709117 status=none)" end "the end of a sparse file"
    equal "$(dd if="$mnt/sparse" bs=4096 skip=1048575 count=2 status=none | tr -d '\0' | wc -c)" 0 "its hole"
}
mount_in_flight() { # 64 readers and writers at once, past the cache
    mkdir "$mnt/many"
    python3 "$here/flight.py" "$mnt/many" "$export/many" "$scratch/digits"
}
# The Linux client's own counters, of READs and WRITEs of 1 MiB, to stand beside those of our client (keys: what was invalidated
# by the peer is not counted there, only what it had to invalidate itself).
mount_shows_counters() {
    local before after
    before=$(mount_counters)
    dd if="$scratch/digits" of="$mnt/counted" bs=1M count=8 oflag=direct status=none
    dd if="$mnt/counted" of=/dev/null bs=1M count=8 iflag=direct status=none
    after=$(mount_counters)
    rm "$mnt/counted"
    [ -n "$after" ] || fail "no counters of RDMA"
    # Sends, keys of read chunks and of write chunks, keys that it invalidated itself.
    paste -d' ' <(tr ' ' '\n' <<<"$before") <(tr ' ' '\n' <<<"$after") | awk '
        {d[NR] = $2 - $1}
        END {
            printf "note: Linux client, 16 x 1 MiB: %d calls, %d keys of read chunks, %d of write chunks, LOCAL_INV %d\n", d[1], d[2], d[3], d[4]
        }'
}
mount_counters() { # the line "xprt: rdma" of the mount: see facts of its order in the kernel's xprt_rdma_print_stats
    awk -v mnt="$mnt" '$0 ~ " mounted on " mnt " " {on = 1} on && $1 == "xprt:" {print $8, $13, $14, $27} /^$/ {on = 0}' \
        /proc/self/mountstats
}
# The Linux client's counters at its own server.
linux_shows_counters() {
    mnt=/mnt/linux
    mkdir -p "$mnt"
    mount -t nfs -o rdma,vers=3,nolock,hard,mountproto=tcp,port=20049,mountport=20048 10.9.0.1:/srv/linux "$mnt"
    mount_shows_counters
    umount "$mnt"
}
# Nothing fails when soft-RoCE stalls, and how long it did is told.
mount_is_deep() { python3 "$here/deep.py" "$mnt/deep" 32 96; }
mount_connects_again() {
    local i
    for i in $(seq 5); do remount; done
    sum_is "$mnt/files" 1MiB
}
mount_cleans_up() {
    rm -r "$mnt/files" "$mnt/there" "$mnt/sparse"
    equal "$(ls "$export" | grep -c 'files\|there\|sparse')" 0 "what is left"
    rm -r "${export:?}"/*
}

mount_capture() { # each procedure that a copy needs, with data by chunks and inline
    mount_it
    mkdir -p "$mnt/small/edges"
    cp "$scratch/files"/{0B,1B,4KiB,64KiB+1,1MiB-3} "$mnt/small"
    cp "$scratch/files/edges"/3[89]* "$mnt/small/edges"
    ln -s 4KiB "$mnt/small/link"
    remount
    ls -lR "$mnt/small" >/dev/null
    diff -r "$scratch/files/edges/3800" "$mnt/small/edges/3800"
    cmp "$scratch/files/1MiB-3" "$mnt/small/1MiB-3"
    mv "$mnt/small/1B" "$mnt/small/moved"
    rm -r "$mnt/small"
    umount_it
}

# mount_row ROW
mount_row() {
    check "$1" "mount" mount_it || return 1
    limit=120 check "$1" "put files" mount_puts
    check_sums "$1" put "$export/files"
    check "$1" "mount again" remount
    check_sums "$1" get "$mnt/files"
    check "$1" "list 2000 names" mount_lists
    check "$1" "symlinks of 1 to 1023 bytes" mount_links
    check "$1" "rename" mount_renames
    check "$1" "hard link" mount_hard_links
    check "$1" "sparse file" mount_sparse
    limit=180 check "$1" "64 at a time" mount_in_flight
    check "$1" "counters of the Linux client" mount_shows_counters
    check "$1" "connect again" mount_connects_again
    check "$1" "remove" mount_cleans_up
    check "$1" "unmount" umount_it
}
