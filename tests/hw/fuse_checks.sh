# Row 11: mount.nfsrdma of Linux's server, once on its own soft-RoCE and once from the namespace on softroce. The caller sets:
# enters, what the mounting begins with; options; mnt, where it is mounted; export, the directory that is served, seen from here.
# `ip netns exec` would make a namespace of mounts as well, where nobody sees the mount.

fuse_mounts() {
    mkdir -p "$mnt"
    "${enters[@]}" "$BIN/mount.nfsrdma" "10.9.0.1:$export" "$mnt" -o "$options"
    grep -q "^10.9.0.1:$export $mnt fuse.nfsrdma" /proc/mounts || fail "not mounted: $(grep "$mnt" /proc/mounts)"
}
# The process ends by itself, which is when its memory and its connection have gone.
fuse_unmounts() {
    umount "$mnt"
    for _ in $(seq 100); do
        pidof mount.nfsrdma >/dev/null || return 0
        sleep 0.2
    done
    fail "the process of the mount is left"
}
fuse_files() {
    mkdir "$mnt/of-mount"
    cp -r "$scratch/files" "$mnt/of-mount/files"
    diff -r "$scratch/files" "$export/of-mount/files"
    fuse_unmounts
    fuse_mounts
    diff -r "$scratch/files" "$mnt/of-mount/files"
    cp -r "$scratch/links" "$mnt/of-mount/links"
    links_of "$export/of-mount/links" | cmp - "$scratch/links.list" || fail "links at the server differ"
}
fuse_lists() {
    make_names "$export/of-mount/names"
    ls "$mnt/of-mount/names" | cmp - <(ls "$export/of-mount/names") || fail "names differ"
    equal "$(ls -l "$mnt/of-mount/names" | grep -c name-)" 2000 "lines of ls -l"
}
# Shortened: all of it takes longer than a row may, in a guest that is translated. By hand: NR_GUEST_POSIX= (all).
some_posix="open. names.unlink size.grow rename.files rename.directories rename.between rename.of link.hard link.B112 map.shared"
some_posix+=" map.private map.beyond io.read io.write io.boundaries io.positions times.far attributes.fields attributes.change"
some_posix+=" users.sticky directories.small" # not of groups: Debian's mountd looks them up itself (manage-gids)
fuse_posix() {
    mkdir "$mnt/of-mount/posix"
    # The names are words.
    "$BIN/nfsrdma_posix" "$mnt/of-mount/posix" --nfs ${NR_GUEST_POSIX-$some_posix} >"$scratch/posix" 2>&1 || {
        cat "$scratch/posix"
        fail "nfsrdma_posix: $(grep -ci failed "$scratch/posix") failed: $(head -n 1 "$scratch/posix")"
    }
    echo "note: $(tail -n 1 "$scratch/posix")"
}
fuse_fsx() {
    "$BIN/nfsrdma_fsx" "$mnt/of-mount/fsx" --seed "${NR_GUEST_SEED:-7}" --operations "${NR_GUEST_FSX:-600}"
}
fuse_git() {
    export HOME=$scratch GIT_CONFIG_NOSYSTEM=1
    export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
    local i
    rm -rf "$scratch/origin"
    git init -q "$scratch/origin"
    for i in 1 2 3 4 5; do
        cp "$scratch/files/64KiB+1" "$scratch/origin/binary-$i"
        seq "$i" 500 >"$scratch/origin/file-$i"
        git -C "$scratch/origin" add -A
        git -C "$scratch/origin" commit -q -m "$i"
    done
    git clone -q --no-hardlinks "$scratch/origin" "$mnt/of-mount/clone"
    echo more >>"$mnt/of-mount/clone/file-1"
    git -C "$mnt/of-mount/clone" commit -q -a -m more
    git -C "$mnt/of-mount/clone" gc -q
    git -C "$mnt/of-mount/clone" fsck --full --no-progress
}
fuse_cleans_up() {
    rm -rf "$mnt/of-mount"
    [ ! -e "$export/of-mount" ] || fail "left: $(find "$export/of-mount" | head -n 3)"
}
# fuse_row ROW NAME: the checks of one mount.
fuse_row() {
    check "$1" "$2: mount" fuse_mounts || return
    limit=150 check "$1" "$2: files" fuse_files
    check "$1" "$2: list 2000 names" fuse_lists
    limit=150 check "$1" "$2: git" fuse_git
    limit=150 check "$1" "$2: random operations" fuse_fsx
    limit=${NR_GUEST_POSIX_SECONDS:-150} check "$1" "$2: system calls" fuse_posix
    check "$1" "$2: remove" fuse_cleans_up
    check "$1" "$2: unmount" fuse_unmounts || umount -l "$mnt"
}
