#!/usr/bin/env bash
# Our client and server beside Linux's, inside the guest, by hand:
#   tests/hw/softroce-vm -m 3072 -t 600 -- bash tests/hw/compare_linux.sh BIN [arguments of rpcrdma-bench compare-linux]
# Everything runs on rxe0, both exports on tmpfs; the device's own ceiling stands beside it (ib_write_bw, ib_read_bw, MiB/s).
BIN=$1
OUT=/out
shift
source "$(dirname "$0")/lib.sh"
# In a small machine nfsd takes no more than 512 KiB at a time by itself.
modprobe nfsd && mkdir -p /proc/fs/nfsd && mount -t nfsd nfsd /proc/fs/nfsd && echo 1048576 >/proc/fs/nfsd/max_block_size
start_nfsd >"$OUT/log" 2>&1 || fail "start of nfsd: $(tail -n 1 "$OUT/log")"
mkdir -p /srv/ours /mnt/linux
mount -t tmpfs -o size=512m none /srv/ours
for place in /srv/linux /srv/ours; do head -c 64M /dev/urandom >$place/bench-data; done
start_ours ours -- --device rdmacore:rxe0 --export /srv/ours=/export --listen 10.9.0.1:20050 || fail "start of nfsrdmad"
mount -t nfs -o rdma,port=20049,vers=3,nolock,mountport=20048,mountproto=tcp,rsize=1048576,wsize=1048576 \
    10.9.0.1:/srv/linux /mnt/linux || fail "mount of the Linux export"
for test in write read; do
    "ib_${test}_bw" -d rxe0 -x 1 -s 1048576 -n 60 -t 8 >"$OUT/ib.server" 2>&1 &
    sleep 2
    "ib_${test}_bw" -d rxe0 -x 1 -s 1048576 -n 60 -t 8 10.9.0.1 2>/dev/null | awk -v test=$test '$1 == 1048576 {print "ib_" test "_bw_MiBps", $4}'
    wait $!
done
status=0
"$BIN/rpcrdma-bench" compare-linux --device rdmacore:rxe0 --linux-server 10.9.0.1 --linux-export /srv/linux \
    --our-server 10.9.0.1:20050 --our-export /export --mounted /mnt/linux "$@" || status=$?
umount /mnt/linux
stop_ours
exit $status
