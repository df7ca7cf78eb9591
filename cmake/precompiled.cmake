# Standard headers, read once a build: with them a build takes two thirds of its time. What a file includes it still has to say:
# the clang preset builds without them.
#
# nr_precompiled(target kind): kind is `product` or `test` (Google Test besides); no effect without NR_PCH. The target is compiled
# as the first target of its kind was: the compiler takes a precompiled header for the same options only.
option(NR_PCH "precompile the headers of the standard library and of Google Test" OFF)

set(nr_product_headers <algorithm> <array> <atomic> <cerrno> <charconv> <chrono> <cstdint> <cstdio> <cstring> <functional>
    <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>)
set(nr_test_headers ${nr_product_headers} <deque> <filesystem> <fstream> <sstream> <thread> <gmock/gmock.h> <gtest/gtest.h>)

function(nr_precompiled target kind)
  if(NOT NR_PCH)
    return()
  endif()
  if(NOT TARGET nr_${kind}_headers)
    file(WRITE ${PROJECT_BINARY_DIR}/${kind}_headers.cpp "")
    add_library(nr_${kind}_headers OBJECT ${PROJECT_BINARY_DIR}/${kind}_headers.cpp)
    target_link_libraries(nr_${kind}_headers PRIVATE nr_warnings)
    if(kind STREQUAL test)
      target_link_libraries(nr_${kind}_headers PRIVATE GTest::gmock)
      target_compile_options(nr_${kind}_headers PRIVATE ${nr_test_options})
    endif()
    target_precompile_headers(nr_${kind}_headers PRIVATE ${nr_${kind}_headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM nr_${kind}_headers)
endfunction()
