#!/usr/bin/env bash
# rpcrdma-bench register runs and prints its lines: bench_register.sh BIN. Not how fast: softroce has no registration to compare with.
BIN=$1
source "$(dirname "$0")/lib.sh"
"$BIN/rpcrdma-bench" register --device softroce --address "$(address)" --smoke >"$work/out" || fail "status $?"
for name in bind_vs_reg_4KiB bind_vs_reg_64KiB bind_vs_reg_1MiB bind_1MiB_vs_4KiB; do
    grep -Eq "^$name [0-9.]+ " "$work/out" || { cat "$work/out"; fail "no line $name"; }
done
if "$BIN/rpcrdma-bench" register --device rdmacore:none-such --address 127.0.0.1 --smoke 2>"$work/err"; then fail "a device that is not there"; fi
grep -q 'none-such' "$work/err" || fail "does not name the device: $(cat "$work/err")"
echo ok
