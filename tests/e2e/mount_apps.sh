#!/usr/bin/env bash
# Programs that people run on a file system, on a mount: git, SQLite, a compiler and CMake, tar, rsync, fio.
# mount_apps.sh BIN [FOLDER|tmpfs [OPTIONS OF THE MOUNT]]
BIN=$1
source "$(dirname "$0")/mount_lib.sh"
needs_mount
needs_program git sqlite3 cmake tar rsync fio cc
export_in "${2:-tmpfs}"
options=${3:-}
serve server
mnt=$work/mnt
mount_export "$mnt" "$options"
from=$SECONDS
done_with() { echo "$1: $((SECONDS - from)) s"; from=$SECONDS; }

export HOME=$work/home GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=Author GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=Author GIT_COMMITTER_EMAIL=a@example.org
mkdir "$HOME"
git config --global init.defaultBranch main
git config --global gc.auto 0
git config --global core.fsync all

origin() { # a repository of 30 commits on 150 files
    local i
    git init -q "$work/origin"
    (
        cd "$work/origin"
        mkdir -p one/two/three
        for i in $(seq 150); do
            case $((i % 3)) in 0) dir=one ;; 1) dir=one/two ;; 2) dir=one/two/three ;; esac
            seq "$i" $((i + 400)) >"$dir/file-$i"
        done
        head -c 3000000 /dev/urandom >binary
        ln -s one/two link
        chmod 0755 one/file-3
        for i in $(seq 30); do
            seq "$i" $((i + 100)) >>one/file-$((i * 3))
            echo "$i" >changes
            git add -A
            git commit -q -m "commit $i"
        done
    )
}
git_works() {
    origin
    limited 60 git clone -q --no-hardlinks "$work/origin" "$mnt/clone"
    cd "$mnt/clone"
    [ -z "$(git status --porcelain)" ] || fail "git status after clone: $(git status --porcelain | head -n 3)"
    same_tree "$work/origin/one" "$mnt/clone/one"
    cmp "$work/origin/binary" binary
    for i in 1 2 3 4 5; do
        echo "$i" >>one/file-$((i * 3))
        git mv one/two/file-$((i * 3 + 1)) one/moved-"$i"
        git add -A
        limited 60 git commit -q -m "in the mount $i"
    done
    limited 60 git gc -q --prune=now
    limited 60 git fsck --full --strict >"$work/fsck" 2>&1 || { cat "$work/fsck" >&2; fail "git fsck"; }
    [ "$(git rev-list --count HEAD)" = 35 ] || fail "git: $(git rev-list --count HEAD) commits"
    limited 60 git checkout -q HEAD~20
    [ "$(cat changes)" = 15 ] || fail "git checkout: changes is $(cat changes)"
    limited 60 git checkout -q main
    [ -z "$(git status --porcelain)" ] || fail "git status: $(git status --porcelain | head -n 3)"
    # What is there is what was committed, to whoever looks without the mount.
    git -C "$export/clone" -c safe.directory='*' fsck --full >"$work/fsck" 2>&1 || { cat "$work/fsck" >&2; fail "git fsck at the server"; }
    cd "$work"
}

sql() { limited 60 sqlite3 -bail "$mnt/$1" "$2"; }
sqlite_works() {
    local mode name
    for mode in delete wal; do
        name=$mode.db
        [ "$(sql "$name" "PRAGMA journal_mode=$mode;")" = "$mode" ] || fail "sqlite3: no journal mode $mode"
        sql "$name" "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT, data BLOB); CREATE INDEX i ON t (text);"
        { echo "BEGIN;"
          seq -f "INSERT INTO t (text, data) VALUES ('row %g', randomblob(100));" 10000
          echo "COMMIT;"; } >"$work/insert.sql"
        limited 60 sqlite3 -bail "$mnt/$name" <"$work/insert.sql"
        seq -f "INSERT INTO t (text, data) VALUES ('single %g', randomblob(3000));" 200 >"$work/insert.sql"
        limited 60 sqlite3 -bail "$mnt/$name" <"$work/insert.sql"
        # Two writers at once, which keep each other out by fcntl's locks.
        seq -f "INSERT INTO t (text) VALUES ('more %g');" 50 >"$work/more.sql"
        for i in 1 2; do limited 60 sqlite3 -bail -cmd '.timeout 60000' "$mnt/$name" <"$work/more.sql" & jobs[$i]=$!; done
        for i in 1 2; do wait "${jobs[$i]}" || fail "sqlite3: writer $i of two ($mode)"; done
        sql "$name" "DELETE FROM t WHERE id % 3 = 0; UPDATE t SET text = text || '!' WHERE id % 5 = 0;"
        sql "$name" "VACUUM;"
        [ "$(sql "$name" "PRAGMA integrity_check;")" = ok ] || fail "sqlite3: integrity_check ($mode)"
        [ "$(sql "$name" "SELECT count(*) FROM t;")" = 6867 ] || fail "sqlite3: $(sql "$name" "SELECT count(*) FROM t;") rows"
        sql "$name" "PRAGMA wal_checkpoint(TRUNCATE);" >/dev/null
        cp "$export/$name" "$work/$name"
        [ "$(limited 60 sqlite3 "$work/$name" "PRAGMA integrity_check;")" = ok ] || fail "sqlite3: the server's copy ($mode)"
    done
}

project() { # DIR: 20 files in C
    local i
    mkdir -p "$1/src"
    { echo 'cmake_minimum_required(VERSION 3.13)'
      echo 'project(small C)'
      echo 'file(GLOB sources src/*.c)'
      echo 'add_library(parts STATIC ${sources})'
      echo 'add_executable(small main.c)'
      echo 'target_link_libraries(small parts)'; } >"$1/CMakeLists.txt"
    for i in $(seq 20); do
        printf '#include <stdio.h>\n#include <string.h>\n#include "parts.h"\nint part_%d(int x) { return x + %d; }\n' "$i" "$i" >"$1/src/part_$i.c"
        echo "int part_$i(int x);"
    done >"$1/src/parts.h"
    { echo '#include <stdio.h>'
      echo '#include "src/parts.h"'
      echo 'int main(void) { int x = 0;'
      for i in $(seq 20); do echo "x = part_$i(x);"; done
      echo 'printf("%d\n", x); return 0; }'; } >"$1/main.c"
}
compilers_work() {
    project "$mnt/project"
    limited 60 cmake -S "$mnt/project" -B "$mnt/project/build" >"$work/cmake.log" 2>&1 || { tail "$work/cmake.log" >&2; fail "cmake"; }
    limited 60 cmake --build "$mnt/project/build" -- -j2 >"$work/build.log" 2>&1 || { tail "$work/build.log" >&2; fail "build"; }
    [ "$("$mnt/project/build/small")" = 210 ] || fail "the program that was built says $("$mnt/project/build/small")"
    # Nothing is built again but what changed: times are kept.
    limited 60 cmake --build "$mnt/project/build" >"$work/build.log" 2>&1
    ! grep -q 'Building' "$work/build.log" || { cat "$work/build.log" >&2; fail "everything is built again"; }
    sed -i 's/+ 20;/+ 21;/' "$mnt/project/src/part_20.c"
    limited 60 cmake --build "$mnt/project/build" >"$work/build.log" 2>&1
    [ "$(grep -c 'Building' "$work/build.log")" = 1 ] || { cat "$work/build.log" >&2; fail "one change, but not one compilation"; }
    [ "$("$mnt/project/build/small")" = 211 ] || fail "the program is not new"
    limited 60 cmake --build "$mnt/project/build" --target clean >/dev/null
}

facts() { (cd "$1" && find . \( -type d -o -printf '%P %T@ %s ' \) -printf '%m %l\n' | LC_ALL=C sort); }
archives_work() {
    make_tree "$work/tree"
    find "$work/tree" -exec touch -h -d '2001-02-03 04:05:06.123456' {} +
    mkdir "$mnt/tar" "$mnt/rsync"
    tar -C "$work/tree" --format=posix -cf - . | limited 60 tar -C "$mnt/tar" -xpf -
    same_tree "$work/tree" "$mnt/tar"
    same_tree "$work/tree" "$export/tar"
    # bindfs 1.14 loses the times that tar sets.
    [ "$mount_by" = bindfs ] || [ "$(facts "$work/tree")" = "$(facts "$mnt/tar")" ] ||
        { diff <(facts "$work/tree") <(facts "$mnt/tar") >&2; fail "tar: times or modes"; }
    limited 60 rsync -a "$work/tree/" "$mnt/rsync/"
    [ -z "$(limited 60 rsync -a --checksum --itemize-changes "$work/tree/" "$mnt/rsync/")" ] || fail "rsync finds differences"
    head -c 100000 /dev/urandom | dd of="$work/tree/sub/deeper/big" bs=100000 seek=7 conv=notrunc status=none
    rm "$work/tree/sub/file-0"
    limited 60 rsync -a --inplace --no-whole-file --delete "$work/tree/" "$mnt/rsync/"
    same_tree "$work/tree" "$mnt/rsync"
    limited 60 rsync -a "$mnt/rsync/" "$work/back/"
    same_tree "$work/tree" "$work/back"
    limited 60 rm -rf "$mnt/tar" "$mnt/rsync"
    [ ! -e "$export/tar" ] && [ ! -e "$export/rsync" ] || fail "rm -rf left something"
}

fio_job() { # NAME ARGUMENT...
    limited 60 fio --name="$1" --directory="$mnt" --verify=crc32c --verify_fatal=1 --group_reporting --minimal \
        --randseed=$((RANDOM + 1)) --allrandrepeat=0 "${@:2}" >"$work/fio.log" 2>&1 || { cat "$work/fio.log" >&2; fail "fio $*"; }
}
fio_works() {
    local size
    # B125: blocks in random order from eight threads, in one file.
    fio_job random-order --filename=shared --rw=randwrite --bs=64k --numjobs=8 --thread --size=2m --offset_increment=2m \
        --end_fsync=1 --ioengine=psync
    [ "$(stat -c %s "$mnt/shared")" = $((16 << 20)) ] || fail "B125: $(stat -c %s "$mnt/shared") bytes"
    cmp "$mnt/shared" "$export/shared" || fail "B125: the server has other bytes"
    rm "$mnt/shared"
    fio_job direct --rw=randrw --bs=4k --size=4m --direct=1 --ioengine=psync
    fio_job mapped --rw=randrw --bs=4k --size=4m --ioengine=mmap
    fio_job queued --rw=randrw --bs=16k --size=8m --ioengine=libaio --iodepth=16 --direct=1
    fio_job large --rw=randrw --bs=1m --size=64m --ioengine=psync
    # B128: sizes of transfers.
    for size in 65536 69632 262144 1048576; do
        unmount "$mnt"
        mount_export "$mnt" "rsize=$size,wsize=$size${options:+,$options}"
        fio_job "size-$size" --rw=randrw --bs="$size" --size=24m --ioengine=psync --numjobs=2
    done
}

git_works
done_with git
sqlite_works
done_with sqlite3
compilers_work
done_with cmake
archives_work
done_with "tar, rsync"
fio_works
done_with fio
unmount "$mnt"
end_serving
echo ok
