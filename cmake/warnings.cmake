# One interface target that carries every warning; all of our targets link it PRIVATE.
add_library(nr_warnings INTERFACE)
target_compile_options(nr_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wcast-align -Wnull-dereference -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wreserved-identifier -Wno-gnu-zero-variadic-macro-arguments>)
option(NR_WERROR "warnings are errors" OFF)
if(NR_WERROR)
  target_compile_options(nr_warnings INTERFACE -Werror)
endif()
