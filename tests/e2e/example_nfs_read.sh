# The example of a reader of a file into its own memory: against nfsrdmad, sizes at and about the block's.
BIN=$1
source "$(dirname "$0")/lib.sh"

fnv1a() { # FILE
    python3 - "$1" <<'END'
import sys
digest = 0xcbf29ce484222325
for byte in open(sys.argv[1], "rb").read():
    digest = (digest ^ byte) * 0x100000001b3 & (1 << 64) - 1
print("%016x" % digest)
END
}

a=$(address)
mkdir -p "$work/export/sub"
for bytes in 1 2049 1048576 1048577 9437183; do
    head -c "$bytes" /dev/urandom >"$work/export/sub/$bytes"
done
start_server server --listen "$a" --export "$work/export"
for bytes in 1 2049 1048576 1048577 9437183; do
    timeout 60 "$BIN/example_nfs_read" "$a" "$work/export" "sub/$bytes" >"$work/out" 2>&1 ||
        fail "$bytes bytes: $(cat "$work/out")"
    grep -q "^$bytes bytes, digest $(fnv1a "$work/export/sub/$bytes"), .* 1.00 keys each, payload_copied_bytes 0" "$work/out" ||
        fail "$bytes bytes: $(cat "$work/out")"
done
