# What the rows share. Sourced inside the guest; the caller sets BIN, the folder of the programs, and OUT, where results go.
#
# Every check is one line of $OUT/results: row, name and outcome, such as "row 4 checksum 1MiB ok (0.8 s)". A check that fails
# tells why, and the next ones go on.
set -u

scratch=/dev/shm/hw
limit=60  # seconds that one check may take, unless it says otherwise
server_pid=
mkdir -p "$scratch"

now_ms() { date +%s%3N; }

# say ROW NAME OUTCOME
say() { echo "row $1 $2 $3" | tee -a "$OUT/results"; }

# check ROW NAME COMMAND...: runs it in a process group of its own, and kills all of that at the limit. A failure's reason is the
# last line of its output; the whole of it stays in $OUT/log. What it says as "note: TEXT" stands beside "ok".
check() {
    local row=$1 name=$2 from status=0 ended= pid dog took note
    shift 2
    from=$(now_ms)
    echo "== row $row $name" >>"$OUT/log"
    set -m
    (set -euo pipefail; "$@") >"$scratch/said" 2>&1 </dev/null &
    pid=$!
    set +m
    sleep "$limit" &
    dog=$!
    wait -n -p ended "$pid" "$dog" || status=$?
    if [ "$ended" = "$dog" ]; then
        kill -9 -- "-$pid" 2>/dev/null
        echo "not done in $limit s" >>"$scratch/said"
        status=124
    fi
    # What it started and left behind would hold its ports.
    kill -9 -- "-$pid" 2>/dev/null
    kill "$dog" 2>/dev/null
    wait "$dog" 2>/dev/null
    took=$(($(now_ms) - from))
    cat "$scratch/said" >>"$OUT/log"
    took=$((took / 1000)).$((took % 1000 / 100))
    if [ "$status" = 0 ]; then
        note=$(sed -n 's/^note: //p' "$scratch/said" | tail -n 1)
        say "$row" "$name" "ok ($took s${note:+; $note})"
        return 0
    fi
    say "$row" "$name" "FAILED: status $status after $took s: $(grep -v '^$' "$scratch/said" | tail -n 1 | cut -c 1-300)"
    return 1
}

fail() { echo "$*"; exit 1; }
equal() { [ "$1" = "$2" ] || fail "${3:-}: $1, not $2"; }

# The files of every row: see fixtures.py.
sizes=(0B 1B 4KiB 64KiB+1 1MiB-3 1MiB 16MiB+5)

make_names() { # DIR: 2,000 files
    mkdir -p "$1"
    (cd "$1" && seq -f 'name-%05g' 2000 | xargs touch)
}
sum_is() { # DIR NAME: the file there has the checksum of the original
    (cd "$1" && grep " \./$2\$" "$scratch/files.sums" | sha256sum --quiet -c -) || fail "the checksum of $2 in $1 is another"
}
links_of() { (cd "$1" && find . -type l -printf '%f %l\n' | sort -n); }
# check_sums ROW VERB DIR: one line for each size, from one run of sha256sum.
check_sums() {
    local file verdict entry edges=ok from
    local -A outcome=()
    from=$(now_ms)
    (cd "$3" && timeout -s KILL "$limit" sha256sum -c "$scratch/files.sums") >"$scratch/sums" 2>>"$OUT/log" </dev/null
    while IFS=: read -r file verdict; do
        outcome[${file#./}]=${verdict# }
        [ "${file#./edges/}" = "$file" ] || [ "$verdict" = " OK" ] || edges="FAILED: ${file#./edges/} B:$verdict"
    done <"$scratch/sums"
    for entry in "${sizes[@]}"; do
        if [ "${outcome[$entry]:-}" = OK ]; then say "$1" "checksum $2 $entry" ok
        else say "$1" "checksum $2 $entry" "FAILED: ${outcome[$entry]:-no answer}"; fi
    done
    [ ${#outcome[@]} -ge 60 ] || edges="FAILED: only ${#outcome[@]} files were read"
    [ "$edges" != ok ] || edges="ok ($((($(now_ms) - from) / 1000)).0 s)"
    say "$1" "checksum $2 inline limit" "$edges"
}

peer() { ip netns exec peer "$@"; }
qps() { rdma resource show qp link rxe0 | grep -c 'type RC' || true; }
# qps_are COUNT: all other connections of rxe0 are gone.
qps_are() {
    for _ in $(seq 100); do
        [ "$(qps)" -gt "$1" ] || return 0
        sleep 0.2
    done
    rdma resource show qp link rxe0
    fail "connections are left: $(qps), not $1"
}

# start_ours NAME PREFIX... -- ARGUMENT...: nfsrdmad, until it serves; its log is $OUT/NAME.log, its pid server_pid.
start_ours() {
    local log=$OUT/$1.log prefix=()
    shift
    while [ "$1" != -- ]; do prefix+=("$1"); shift; done
    shift
    echo "== nfsrdmad $*" >>"$log"
    local said
    said=$(stat -c %s "$log")
    "${prefix[@]}" "$BIN/nfsrdmad" "$@" >>"$log" 2>&1 </dev/null &
    server_pid=$!
    for _ in $(seq 150); do
        ! tail -c "+$((said + 1))" "$log" | grep -q '^nfsrdmad: serving' || return 0
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.2
    done
    tail -n 5 "$log"
    return 1
}
stop_ours() { # ends it in order, within 20 s
    local status=0
    kill -TERM "$server_pid" 2>/dev/null
    for _ in $(seq 100); do kill -0 "$server_pid" 2>/dev/null || break; sleep 0.2; done
    ! kill -9 "$server_pid" 2>/dev/null || echo "nfsrdmad did not end"
    wait "$server_pid" 2>/dev/null || status=$?
    server_pid=
    return $status
}
ended_well() { equal "$1" 0 "status of nfsrdmad"; }

# start_nfsd: Linux's own server, of /srv/linux, on rxe0.
# Also of /srv/ext4: what Linux 6.1 returns of sparse files on tmpfs is wrong when they change meanwhile.
start_nfsd() {
    mkdir -p /srv/linux /srv/ext4 /proc/fs/nfsd /var/lib/nfs/v4recovery
    mount -t tmpfs -o size=512m none /srv/linux
    modprobe -a rpcrdma nfsd nfs loop ext4 || return 1
    truncate -s 256M "$scratch/ext4" && mkfs.ext4 -q -m 0 "$scratch/ext4" && mount -o loop "$scratch/ext4" /srv/ext4 || return 1
    mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd || return 1
    local how='*(rw,no_root_squash,insecure,no_subtree_check,fsid='
    printf '%s\n' "/srv/linux ${how}7)" "/srv/ext4 ${how}8)" >/etc/exports
    : >/var/lib/nfs/etab
    rpcbind -w || return 1
    rpc.mountd --port 20048 && exportfs -ra && rpc.nfsd --no-nfs-version 4 --rdma=20049 8
}
