#!/usr/bin/env bash
# nfsrdmad --check looks at --handle-key and --state-dir, says what to do, and makes nothing: check_handles.sh BIN
BIN=$1
source "$(dirname "$0")/lib.sh"
host=$(address)
chmod 0755 "$work"
mkdir "$work/export"
daemon() { timeout 60 $as "$BIN/nfsrdmad" --export "$work/export" --listen "$host" "$@"; }
as=
good() { # TEXT ARGUMENT...: all is well, and the list says so
    local text=$1
    shift
    daemon --check "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2; fail "--check $* is not content"; }
    grep -q -- "$text" "$work/out" || { cat "$work/out" >&2; fail "--check $* does not say '$text'"; }
}
bad() { # WHAT ADVICE ARGUMENT...: one error that tells both; a start fails for the same reason
    local what=$1 advice=$2 mode got want
    shift 2
    for mode in --check ""; do
        got=0
        want=1
        [ -z "$mode" ] || want=2
        daemon $mode "$@" >"$work/out" 2>&1 || got=$?
        [ "$got" = "$want" ] || { cat "$work/out" >&2; fail "$mode $*: status $got, not $want"; }
        grep "^nfsrdmad: .*$what" "$work/out" | grep -q -- "$advice" ||
            { cat "$work/out" >&2; fail "$mode $*: does not say '$what ... $advice'"; }
    done
}
key() { # BYTES MODE: the file $work/key
    rm -f "$work/key"
    head -c "$1" /dev/urandom >"$work/key"
    chmod "$2" "$work/key"
}

good 'a new key at each start'
key 32 0600
good "file handles signed by $work/key\$" --handle-key "$work/key"
good "file handles signed by $work/new, which would be made" --handle-key "$work/new"
good "state directory $work/state, which would be made" --state-dir "$work/state"
[ ! -e "$work/new" ] && [ ! -e "$work/state" ] || fail "--check made something"

bad "none/key: No such file" "mkdir -p $work/none" --handle-key "$work/none/key"
bad "none/state: No such file" "mkdir -p $work/none" --state-dir "$work/none/state"
bad "key: Not a directory" "name one" --state-dir "$work/key"
mkdir "$work/folder"
bad "no regular file" "remove it" --handle-key "$work/folder"
for bytes in 0 31 33; do
    key $bytes 0600
    bad "key: it has $bytes bytes, not 32" "remove it and a new one is made" --handle-key "$work/key"
done
for mode in 0640 0604 0666; do
    key 32 $mode
    bad "others may read .*mode $mode" "chmod 0600 $work/key" --handle-key "$work/key"
done
key 32 0600
chmod 0777 "$work/folder"
bad "others may write to it (mode 0777)" "chmod 0700 $work/folder" --state-dir "$work/folder"
chmod 0700 "$work/folder"
echo short >"$work/folder/handle-key"
chmod 0600 "$work/folder/handle-key"
bad "folder/handle-key: it has 6 bytes" "remove it" --state-dir "$work/folder"
rm "$work/folder/handle-key"
good "state directory $work/folder\$" --state-dir "$work/folder"
good "signed by $work/folder/handle-key, which would be made" --state-dir "$work/folder"

# What a user may not read or write. Root may all; its files are other users'.
if [ "$(id -u)" = 0 ] && setpriv --reuid=61001 --regid=61001 --clear-groups test -x "$BIN/nfsrdmad"; then
    as="setpriv --reuid=61001 --regid=61001 --clear-groups"
    bad "key: Permission denied" "chown 61001 $work/key" --handle-key "$work/key"
    bad "folder: Permission denied" "chown 61001 $work/folder" --state-dir "$work/folder"
    bad "user 61001 cannot make it" "give it to that user" --handle-key "$work/new"
    bad "user 61001 cannot make it" "give it to that user" --state-dir "$work/state"
    as=
    chown 61002 "$work/key" "$work/folder"
    bad "key: it belongs to user 61002" "chown 0 $work/key" --handle-key "$work/key"
    bad "folder: it belongs to user 61002" "chown 0 $work/folder" --state-dir "$work/folder"
else
    chmod 0 "$work/key" "$work/folder"
    bad "key: Permission denied" "chmod 0600 $work/key" --handle-key "$work/key"
    bad "folder: Permission denied" "chmod 0700 $work/folder" --state-dir "$work/folder"
    chmod 0700 "$work/folder"
fi
echo ok
