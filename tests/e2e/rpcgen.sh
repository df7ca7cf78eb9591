# cmake/RpcGen.cmake, in a project of its own: the .x stands elsewhere and its outputs are made anew when it changes, though
# rpcgen overwrites nothing and names the path of its input in what it makes; and C++ with all warnings takes the header.
BIN=$1
source "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$work/src/idl"
cat >"$work/src/idl/shapes.x" <<'X'
struct circle {
    unsigned int radius;
    unsigned hyper area;
    opaque label<16>;
};
program SHAPES {
    version SHAPES_ONE {
        circle GROW(circle) = 1;
    } = 1;
} = 0x20000321;
X
cat >"$work/src/CMakeLists.txt" <<X
cmake_minimum_required(VERSION 3.25)
project(shapes LANGUAGES C CXX)
find_package(PkgConfig REQUIRED)
pkg_check_modules(TIRPC REQUIRED IMPORTED_TARGET libtirpc)
include($root/cmake/RpcGen.cmake)
rpcgen_add(shapes_x idl/shapes.x MT STUBS FOLDER sub)
add_executable(program program.cpp)
target_compile_options(program PRIVATE -Wall -Wextra -Werror)
target_link_libraries(program PRIVATE shapes_x)
X
# Sizes as RFC 4506 gives them: 4 bytes, 8, and a string of 5 with its length and pad.
cat >"$work/src/program.cpp" <<'X'
#include <cstdio>

#include "sub/shapes.h"

bool_t grow_1_svc(circle*, circle*, svc_req*) { return FALSE; }
int shapes_1_freeresult(SVCXPRT*, xdrproc_t, caddr_t) { return TRUE; }
int main() {
    char text[] = "round";
    circle c{7, 1ull << 40, {5, text}};
    static_assert(sizeof c.radius == 4 && sizeof c.area == 8);
    char bytes[64];
    XDR xdrs;
    xdrmem_create(&xdrs, bytes, sizeof bytes, XDR_ENCODE);
    if (!xdr_circle(&xdrs, &c)) return 1;
    std::printf("%u bytes, of %d\n", xdr_getpos(&xdrs), SHAPES_NEW);
}
X
build() { cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$1"; }; }
made=$work/build/shapes_x.rpcgen/sub

command -v rpcgen >/dev/null || fail "rpcgen is not there, with which this was built"
cmake -S "$work/src" -B "$work/build" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "cmake"; }
# The constant is missing yet: everything but the program is made.
cmake --build "$work/build" >"$work/log" 2>&1 && fail "a program without its constant was built"
grep -q SHAPES_NEW "$work/log" || { cat "$work/log" >&2; fail "the first build"; }
for output in shapes.h shapes_xdr.c shapes_clnt.c shapes_svc.c; do
    [ -s "$made/$output" ] || { cat "$work/log" >&2; fail "no $output"; }
done
for output in shapes_xdr.c shapes_clnt.c shapes_svc.c; do
    grep -qx '#include "shapes.h"' "$made/$output" || fail "$output includes $(grep '^#include' "$made/$output")"
done

# What changes in the .x arrives, over outputs that are there.
echo 'const SHAPES_NEW = 3;' >>"$work/src/idl/shapes.x"
build "after a change of the .x"
[ "$("$work/build/program")" = "24 bytes, of 3" ] || fail "the program says: $("$work/build/program")"

# It was touched: all outputs are made anew, and are the same.
cp -r "$made" "$work/before"
touch "$work/reference"
sleep 0.05
touch "$work/src/idl/shapes.x"
build "after the .x was touched"
for output in shapes.h shapes_xdr.c shapes_clnt.c shapes_svc.c; do
    [ "$made/$output" -nt "$work/reference" ] || fail "$output was not made anew"
    cmp "$made/$output" "$work/before/$output" || fail "$output is another one"
done
# And again: nothing to do.
build "again"
if grep -q 'shapes_xdr' "$work/log"; then cat "$work/log" >&2; fail "it is made anew without need"; fi
echo ok
