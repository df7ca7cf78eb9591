#!/usr/bin/env bash
# Names on a mount: what makes them, what takes them away, files that are unlinked while they are open, and what others do to
# names at the server: mount_names.sh BIN [OPTIONS OF THE MOUNT]
BIN=$(realpath "$1")
source "$(dirname "$0")/mount_lib.sh"
needs_mount
export_in tmpfs
chmod 1777 "$export"
serve server
mnt=$work/mnt
mount_export "$mnt" "${2:-}"

is() { [ "$2" = "$3" ] || fail "$1: '$3', not '$2'"; }
# fails_with TEXT COMMAND...: the system's words for the error.
fails_with() {
    local want=$1
    shift
    ! LC_ALL=C limited 30 "$@" 2>"$work/err" || fail "$*: no error, not '$want'"
    grep -q "$want" "$work/err" || fail "$*: $(cat "$work/err"), not '$want'"
}
hidden_in() { find "$export/$1" -name '.nfs*' | wc -l; }
# soon WHAT COMMAND...: within 20 seconds.
soon() {
    local what=$1
    shift
    for _ in $(seq $((200 * roomy))); do ! "$@" || return 0; sleep 0.1; done
    fail "$what"
}
none_hidden() { [ "$(hidden_in "$1")" = 0 ]; }

making() {
    cd "$mnt"
    umask 027
    mkdir d
    is "mode of a directory" "750 directory" "$(stat -c '%a %F' "$export/d")"
    mkdir -m 2775 s
    mkdir s/below
    is "setgid is handed down" 2750 "$(stat -c %a s/below)"
    mknod d/fifo p
    is "fifo" "640 fifo" "$(stat -c '%a %F' d/fifo)"
    if [ "$(id -u)" = 0 ]; then
        mknod d/null c 1 3 && is "character device" "character special file 1 3" "$(stat -c '%F %t %T' d/null)"
        mknod d/loop b 7 300 && is "block device" "block special file 7 12c" "$(stat -c '%F %t %T' d/loop)"
    fi
    ln -s "somewhere else/ü" d/link
    is "text of a link" "somewhere else/ü" "$(readlink d/link)"
    is "text of a link at the server" "somewhere else/ü" "$(readlink "$export/d/link")"
    fails_with "File exists" mkdir d
    fails_with "File exists" mkdir d/link
    fails_with "File exists" ln -s x d/fifo
    fails_with "No such file" mkdir none/d
    fails_with "Not a directory" mkdir d/fifo/d
    local long
    long=$(printf 'n%.0s' $(seq 255))
    mkdir "$long"
    rmdir "$long"
    fails_with "File name too long" mkdir "x$long"
    fails_with "File name too long" stat "x$long"
    fails_with "File name too long" rmdir "x$long"
    fails_with "File name too long" mv d "x$long"
    fails_with "Directory not empty" rmdir d
    fails_with "Is a directory" unlink d
    fails_with "Not a directory" rmdir d/fifo
    fails_with "No such file" rmdir none
    umask 022
    rm -r d s
    is "what is left" "" "$(ls -A "$export")"
    cd /
}

renaming() {
    cd "$mnt"
    mkdir -p a/sub b
    echo one >a/file
    echo two >b/file
    local before
    before=$(stat -c %i a/file)
    mv a/file b/moved
    is "moved" "one" "$(cat b/moved)"
    is "the same object" "$before" "$(stat -c %i b/moved)"
    [ ! -e a/file ] || fail "the old name is there"
    mv b/moved b/file
    is "replaced" "one" "$(cat b/file)"
    mv a/sub b/sub
    [ -d b/sub ] && [ ! -e a/sub ] || fail "a directory that was moved"
    touch b/sub/full
    mkdir -p a/sub
    fails_with "Directory not empty" mv -T a/sub b/sub
    fails_with "cannot overwrite\|Not a directory" mv -T a/sub b/file
    fails_with "cannot overwrite\|Is a directory" mv -T b/file a/sub
    fails_with "subdirectory of itself\|Invalid argument" mv b b/sub/in
    fails_with "No such file" mv none any
    mv -T a/sub c
    mv -T c a/sub
    # A rename to another name of the same file does nothing.
    ln b/file b/again
    mv b/file b/again 2>/dev/null || true
    is "the file" "one" "$(cat b/again)"
    rm -r a b
    cd /
}

# B112: two names of one file are one file.
B112_two_names() {
    cd "$mnt"
    echo one >a
    is "links" 1 "$(stat -c %h a)"
    ln a b
    is "links after link" "2 2" "$(stat -c %h a) $(stat -c %h b)"
    echo more >>a
    is "inode" "$(stat -c %i a)" "$(stat -c %i b)"
    is "size" "9 9" "$(stat -c %s a) $(stat -c %s b)"
    is "ls" 1 "$(ls -li a b | awk '{print $1, $3, $6}' | sort -u | wc -l)"
    rm a
    is "links after unlink" 1 "$(stat -c %h b)"
    is "what is in it" "one more" "$(cat b | xargs)"
    ln b c
    mv c b 2>/dev/null || true
    rm -f c
    is "links at last" 1 "$(stat -c %h b)"
    rm b
    # Links of what is being written: none of it is lost from sight.
    exec 5>w
    head -c 300000 /dev/zero >&5
    ln w x
    is "size by a name that was made meanwhile" 300000 "$(stat -c %s x)"
    mv x y
    is "size by a name that was moved meanwhile" 300000 "$(stat -c %s y)"
    exec 5>&-
    rm w y
    cd /
}

# B114: a size is not what it was before O_TRUNC or a rename.
B114_rename_over() {
    cd "$mnt"
    local i
    for i in $(seq 50); do
        head -c 236 /dev/zero >t
        is "size" 236 "$(stat -c %s t)"
        : >t
        echo -n x >>t
        is "size after O_TRUNC and append" 1 "$(stat -c %s t)"
        echo foo >T
        is "size before" 4 "$(stat -c %s T)"
        echo longer >T.new
        mv T.new T
        is "size after a rename over it" 7 "$(stat -c %s T)"
        is "what is in it" longer "$(cat T)"
    done
    rm t T
    cd /
}

# B117: unlink, or rename over, an open file.
B117_unlinked_while_open() {
    cd "$mnt"
    local i name
    mkdir d
    echo text >d/f
    exec 5<>d/f
    rm d/f
    [ ! -e d/f ] || fail "an unlinked file is there"
    is "hidden names at the server" 1 "$(hidden_in d)"
    is "size" 5 "$(stat -L -c %s /proc/$$/fd/5)"
    is "links of an unlinked file" 0 "$(stat -L -c %h /proc/$$/fd/5)"
    is "read after unlink" text "$(cat <&5)"
    echo more >&5
    is "size after a write" 10 "$(stat -L -c %s /proc/$$/fd/5)"
    chmod 0600 /proc/$$/fd/5 || fail "chmod of an unlinked file"
    # A name can be made again, and has nothing to do with it.
    echo other >d/f
    is "another file" other "$(cat d/f)"
    rm d/f
    name=$(ls -A d)
    case $name in .nfs*) ;; *) fail "in the directory: $name" ;; esac
    is "length of a hidden name" 28 "${#name}"
    fails_with "resource busy" rm -f "d/$name"
    echo over >over
    fails_with "resource busy" mv -f over "d/$name"
    rm over
    fails_with "Directory not empty" rmdir d
    is "read by the hidden name" "text more" "$(xargs <"d/$name")"
    exec 5<&-
    rmdir d || fail "rmdir after the last close"
    # Again and again: close, then rmdir at once.
    for i in $(seq 100); do
        mkdir d
        echo "$i" >d/f
        exec 5<d/f
        rm d/f
        exec 5<&-
        rmdir d || fail "rmdir after the last close, round $i"
    done
    cd /
}

B117_renamed_over_while_open() {
    cd "$mnt"
    local i
    mkdir d
    echo old >d/f
    exec 5<d/f
    echo new >d/n
    mv -f d/n d/f
    is "the new one" new "$(cat d/f)"
    is "the new one at the server" new "$(cat "$export/d/f")"
    is "hidden names at the server" 1 "$(hidden_in d)"
    is "the old one" old "$(cat <&5)"
    is "links of the old one" 0 "$(stat -L -c %h /proc/$$/fd/5)"
    # What has a hidden name may lose its others.
    ln "d/$(cd d && ls -A | grep '^.nfs')" d/again
    rm d/again
    exec 5<&-
    soon "the hidden name stays" none_hidden d
    # A rename that fails leaves everything as it was.
    mkdir d/sub
    exec 5<d/f
    fails_with "cannot overwrite\|Not a directory" mv -T d/sub d/f
    is "after a rename that failed" "new 0" "$(cat d/f) $(hidden_in d)"
    # Two opens, two links: hidden until the last close, and once.
    ln d/f d/g
    exec 6<d/g
    rm d/f d/g
    is "hidden names of two links" 1 "$(hidden_in d)"
    exec 5<&-
    is "read by the other one" new "$(cat <&6)"
    exec 6<&-
    soon "the hidden name stays" none_hidden d
    # It can be saved.
    echo saved >d/f
    exec 5<d/f
    rm d/f
    mv "d/$(cd d && ls -A | grep '^.nfs')" d/saved
    exec 5<&-
    sleep 0.5
    is "what was saved" saved "$(cat d/saved)"
    rm -r d
    # To others a name that is replaced is always there, also while it is open here.
    echo 0 >f
    (
        while [ ! -e "$export/stop" ]; do
            [ -e "$export/f" ] || { echo missing >"$work/missing"; break; }
        done
    ) &
    pids+=($!)
    for i in $(seq 100); do
        exec 5<f
        echo "$i" >n
        mv -f n f
        exec 5<&-
    done
    touch "$export/stop"
    wait "${pids[-1]}"
    unset 'pids[-1]'
    [ ! -e "$work/missing" ] || fail "a name that is replaced was not there for a moment"
    is "the last one" 100 "$(cat f)"
    soon "hidden names stay" none_hidden .
    rm -f f stop
    rm -f "$export/stop"
    cd /
}

B117_end_of_the_mount() {
    [ "$(id -u)" = 0 ] || return 0  # umount -f and -l
    echo text >"$mnt/f"
    exec 5<"$mnt/f"
    rm "$mnt/f"
    is "hidden names at the server" 1 "$(hidden_in .)"
    # By force: what is open is lost, and what was hidden for it goes.
    umount -f "$mnt" 2>/dev/null || true
    no_mount_process "$mnt"
    exec 5<&-
    ! is_mounted "$mnt" || detach "$mnt"
    is "hidden names after umount -f" 0 "$(hidden_in .)"
    # When it is not busy any more.
    mount_export "$mnt" "$1"
    echo text >"$mnt/f"
    exec 5<"$mnt/f"
    rm "$mnt/f"
    umount -l "$mnt"
    is "read after umount -l" text "$(cat <&5)"
    exec 5<&-
    no_mount_process "$mnt"
    is "hidden names after umount -l" 0 "$(hidden_in .)"
    # Closed, and unmounted at once.
    local i
    for i in 1 2 3; do
        mount_export "$mnt" "$1"
        echo text >"$mnt/f"
        exec 5<"$mnt/f"
        rm "$mnt/f"
        exec 5<&-
        unmount "$mnt"
        is "hidden names after umount" 0 "$(hidden_in .)"
    done
    mount_export "$mnt" "$1"
}

# B119: what was not there is seen when it is.
B119_made_at_the_server() {
    touch "$mnt/pan"
    rm "$mnt/pan"
    [ ! -e "$mnt/pan" ] || fail "pan after rm"
    touch "$export/pan"
    soon "what was made at the server is never seen" test -e "$mnt/pan"
    rm "$mnt/pan"
    [ ! -e "$export/pan" ] || fail "pan at the server after rm"
}

# A name that another file has got at the server: whoever opens it gets that, and nobody ESTALE.
replaced_at_the_server() {
    local i
    for i in $(seq 20); do
        echo "before $i" >"$mnt/r"
        cat "$mnt/r" >/dev/null
        echo "after $i" >"$export/r.new"
        mv -f "$export/r.new" "$export/r"
        is "open after it was replaced" "after $i" "$(cat "$mnt/r")"
        stat "$mnt/r" >/dev/null || fail "stat after it was replaced"
        rm "$mnt/r"
    done
    mkdir "$mnt/dir"
    echo one >"$mnt/dir/f"
    rm -r "$export/dir"
    mkdir "$export/dir"
    echo two >"$export/dir/f"
    # Listed before anything in it is looked up, and at once: it was asked for at its opening.
    is "listing of a directory that was replaced" f "$(ls "$mnt/dir")"
    soon "a directory that was replaced" sh -c "[ \"\$(cat '$mnt/dir/f' 2>/dev/null)\" = two ]"
    rm -r "$mnt/dir"
    # Taken away under an open file: that is not there any more, and the mount goes on.
    echo one >"$mnt/gone"
    exec 5<"$mnt/gone"
    rm "$export/gone"
    rm -f "$mnt/gone"
    exec 5<&-
    [ ! -e "$mnt/gone" ] || fail "a file that was removed at the server"
}

# B111: as whom names are made and hidden.
B111_users() {
    [ "$(id -u)" = 0 ] || return 0
    command -v setpriv >/dev/null || return 0
    local who
    for who in 3000:3050 3001:3051 3002:3052; do
        as=(setpriv --reuid "${who%:*}" --regid "${who#*:}" --clear-groups)
        "${as[@]}" bash -c "umask 027; cd '$mnt'; mkdir u${who%:*}; cd u${who%:*}; touch f; mkfifo p; ln -s x l; mkdir d"
        is "owner and mode" "750 $who" "$(stat -c '%a %u:%g' "$export/u${who%:*}")"
        is "of a file" "640 $who" "$(stat -c '%a %u:%g' "$export/u${who%:*}/f")"
        is "of a fifo" "640 $who" "$(stat -c '%a %u:%g' "$export/u${who%:*}/p")"
        is "of a link" "$who" "$(stat -c '%u:%g' "$export/u${who%:*}/l")"
        # Hidden, and removed, as the user.
        "${as[@]}" bash -c "cd '$mnt/u${who%:*}'; exec 5<f; rm f; exec 5<&-; rm -r d p l; rmdir d 2>/dev/null; cd ..; rmdir u${who%:*}" ||
            fail "the user $who cannot remove what is the user's"
    done
    mkdir -m 0755 "$mnt/roots"
    fails_with "Permission denied" "${as[@]}" mkdir "$mnt/roots/x"
    touch "$mnt/roots/f"
    fails_with "Permission denied\|not permitted" "${as[@]}" rm -f "$mnt/roots/f"
    rm -r "$mnt/roots"
}

# Processes that open, rename, link and remove the same few names, on two mounts: errors are allowed, but only those that others'
# doings explain; what is open stays readable; and nothing hidden is left.
many_at_once() {
    local i other=$work/other made=()
    mount_export "$other" "$1"
    mkdir "$mnt/many"
    for i in $(seq 6); do
        perl -e '
            use Errno qw(ENOENT EEXIST ESTALE EBUSY);
            my ($dir, $seed, $rounds) = @ARGV;
            chdir $dir or die "chdir: $!";
            srand $seed;
            my @open;
            my $check = sub { die "$_[0]: $!\n" unless $_[1] || $! == ENOENT || $! == EEXIST || $! == ESTALE || $! == EBUSY };
            for my $round (1 .. $rounds) {
                my ($a, $b, $what) = (int rand 5, int rand 5, int rand 7);
                if ($what <= 1) {
                    my $ok = open(my $file, $what ? "+>" : "<", "n$a");
                    $check->("open", $ok);
                    push @open, $file if $ok;
                } elsif ($what == 2) { $check->("rename", rename "n$a", "n$b");
                } elsif ($what == 3) { $check->("unlink", unlink "n$a");
                } elsif ($what == 4) { $check->("link", link "n$a", "n$b");
                } elsif ($what == 5) { $check->("stat", defined((stat "n$a")[0]));
                } elsif (@open) {
                    my $file = splice @open, int rand @open, 1;
                    close $file;
                }
                splice @open, 0, 1 if @open > 8;
            }
        ' "$([ $((i % 2)) = 0 ] && echo "$mnt/many" || echo "$other/many")" "$i" 400 &
        made+=($!)
    done
    for i in "${made[@]}"; do wait "$i" || fail "a process of many"; done
    soon "hidden names of many stay" none_hidden many
    rm -rf "$mnt/many"
    unmount "$other"
}

making
renaming
B114_rename_over
if [ "$mount_by" = nfsrdma ]; then
    B112_two_names
    B117_unlinked_while_open
    B117_renamed_over_while_open
    B117_end_of_the_mount "${2:-}"
    B119_made_at_the_server
    replaced_at_the_server
    B111_users
    many_at_once "${2:-}"
fi
echo "names: $SECONDS s"
is "what is left at the server" "" "$(ls -A "$export")"
unmount "$mnt"
end_serving
echo "names: well"
