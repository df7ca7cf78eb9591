#!/usr/bin/env bash
# Callers act as themselves: three users, of no, 16 and 40 groups: identity.sh BIN [FOLDER]
BIN=$1
[ "$(id -u)" = 0 ] || { echo "needs root: acts as other users"; exit 77; }
[ $# -lt 2 ] || export TMPDIR=$2
source "$(dirname "$0")/lib.sh"
host=$(address)
chmod 0755 "$work"
install -d -m 1777 "$work/export"
bob_groups=$(seq -s, 62000 62015)
cleo_groups=$(seq -s, 62100 62139)
ann() { timeout 60 setpriv --reuid=61001 --regid=61001 --clear-groups "$BIN/nfsrdma" "$@"; }
bob() { timeout 60 setpriv --reuid=61002 --regid=61002 --groups="$bob_groups" "$BIN/nfsrdma" "$@"; }
cleo() { timeout 60 setpriv --reuid=61003 --regid=61003 --groups="$cleo_groups" "$BIN/nfsrdma" "$@"; }
anyone() { timeout 60 "$BIN/nfsrdma" "$@"; } # root, who is squashed
denied() { # COMMAND...: refused, and for want of permission
    local got=0
    "$@" >"$work/out" 2>&1 || got=$?
    [ "$got" = 1 ] || { cat "$work/out" >&2; fail "$*: status $got, not 1"; }
    grep -qiE 'permi|denied|acces|ACCES|PERM' "$work/out" || { cat "$work/out" >&2; fail "$*: not for want of permission"; }
}
owner() { stat -c %u:%g "$work/export/$1"; }
echo hello >"$work/hello"
chmod 0644 "$work/hello"
install -m 0600 -o 61001 -g 61001 "$work/hello" "$work/private"
install -m 0444 "$work/hello" "$work/read-only"

# Everything that does not depend on where groups come from.
check_users() {
    local user url=nfs://$host$work/export
    rm -rf "$work/export"/*
    for user in ann bob cleo; do
        $user put "$work/hello" "$url/of-$user"
        $user mkdir "$url/dir-$user"
        $user ln -s target "$url/link-$user" 2>/dev/null || true
    done
    [ "$(owner of-ann) $(owner of-bob) $(owner of-cleo)" = "61001:61001 61002:61002 61003:61003" ] ||
        fail "new files do not belong to their callers: $(owner of-ann) $(owner of-bob) $(owner of-cleo)"
    [ "$(owner dir-ann) $(owner dir-bob)" = "61001:61001 61002:61002" ] || fail "new directories do not"
    anyone put "$work/hello" "$url/of-root"
    [ "$(owner of-root)" = 65534:65534 ] || fail "root is not squashed: $(owner of-root)"

    # What one caller has open lets no other in.
    ann put "$work/private" "$url/private"
    chmod 0600 "$work/export/private"
    [ "$(ann cat "$url/private")" = hello ] || fail "the owner cannot read"
    denied bob cat "$url/private"
    denied cleo cat "$url/private"
    denied anyone cat "$url/private"
    [ "$(ann cat "$url/private")" = hello ] || fail "the owner cannot read any more"
    denied bob put "$work/hello" "$url/dir-ann/x"
    denied bob rm "$url/of-ann" # the directory is sticky

    # RFC 1813 s4.4: written by the owner whatever the mode says, as git does.
    ann put "$work/read-only" "$url/read-only"
    cmp "$work/hello" "$work/export/read-only" || fail "a file of mode 0444 was not written"

    # Groups: the first and the sixteenth of the call.
    install -d -m 0770 -g 62000 "$work/export/first"
    install -d -m 0770 -g 62015 "$work/export/sixteenth"
    install -d -m 0770 -g 62139 "$work/export/fortieth"
    bob put "$work/hello" "$url/first/b"
    bob put "$work/hello" "$url/sixteenth/b"
    denied bob put "$work/hello" "$url/fortieth/b"
    denied ann put "$work/hello" "$url/first/a"
    denied ann put "$work/hello" "$url/sixteenth/a"
    denied cleo put "$work/hello" "$url/sixteenth/c"
    denied ann ls "$url/first"

    # All at once.
    local jobs=()
    for user in ann bob cleo; do
        (for i in 1 2 3 4 5 6; do $user put "$work/hello" "$url/$user-$i"; done) &
        jobs+=($!)
    done
    for user in "${jobs[@]}"; do wait "$user" || fail "a caller among others failed"; done
    for i in 1 2 3 4 5 6; do
        [ "$(owner "ann-$i") $(owner "bob-$i") $(owner "cleo-$i")" = "61001:61001 61002:61002 61003:61003" ] ||
            fail "callers at once mix: $(owner "ann-$i") $(owner "bob-$i") $(owner "cleo-$i")"
    done
}

start_server server --export "$work/export:rw" --listen "$host" --loops 2
grep '^nfsrdmad: serving' "$server_log" | grep -q 'each caller acts as itself' ||
    { cat "$server_log" >&2; fail "the line at start does not tell who callers act as"; }
check_users
denied cleo put "$work/hello" "nfs://$host$work/export/fortieth/c" # AUTH_SYS has no room for that group
stop_server

# Groups of this machine, which the server alone sees.
if unshare -m true 2>/dev/null; then
    mkdir "$work/bin"
    { cat /etc/passwd; for i in 1 2 3; do echo "u6100$i:x:6100$i:6100$i::/:/bin/false"; done; } >"$work/passwd"
    { cat /etc/group
      for i in $(seq 62000 62015); do echo "g$i:x:$i:u61002"; done
      for i in $(seq 62100 62139); do echo "g$i:x:$i:u61003"; done; } >"$work/group"
    chmod 0644 "$work/passwd" "$work/group"
    cat >"$work/bin/nfsrdmad" <<END
#!/bin/sh
mount --bind "$work/passwd" /etc/passwd && mount --bind "$work/group" /etc/group && exec "$BIN/nfsrdmad" "\$@"
END
    chmod 0755 "$work/bin/nfsrdmad"
    cat >"$work/bin/in-namespace" <<END
#!/bin/sh
exec unshare -m "$work/bin/nfsrdmad" "\$@"
END
    chmod 0755 "$work/bin/in-namespace"
    mkdir "$work/bin2"
    mv "$work/bin/in-namespace" "$work/bin2/nfsrdmad"
    programs=$BIN
    BIN=$work/bin2
    start_server managed --export "$work/export:rw" --listen "$host" --manage-gids
    BIN=$programs
    check_users
    cleo put "$work/hello" "nfs://$host$work/export/fortieth/c"
    [ "$(owner fortieth/c)" = 61003:61003 ] || fail "the fortieth group does not count"
    # What the call says does not count.
    bob_groups=62139 denied bob put "$work/hello" "nfs://$host$work/export/fortieth/b"
    stop_server
fi

# Without the capabilities all act as the daemon's user.
install -d -m 0755 -o 61001 -g 61001 "$work/own"
cat >"$work/nfsrdmad" <<END
#!/bin/sh
exec setpriv --reuid=61001 --regid=61001 --clear-groups "$BIN/nfsrdmad" "\$@"
END
chmod 0755 "$work/nfsrdmad"
programs=$BIN
BIN=$work
start_server alone --export "$work/own" --listen "$host"
BIN=$programs
grep '^nfsrdmad: serving' "$server_log" | grep -q 'all callers act as uid 61001' ||
    { cat "$server_log" >&2; fail "the line at start does not tell that nobody is itself"; }
bob put "$work/hello" "nfs://$host$work/own/b"
[ "$(stat -c %u "$work/own/b")" = 61001 ] || fail "the file is not the daemon's user's"
stop_server
echo ok
