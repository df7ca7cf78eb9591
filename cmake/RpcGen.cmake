# rpcgen_add(<target> <file.x> [MT] [STUBS] [PREFIX text] [FOLDER path] [FLAGS ...]): a static C library of the header and the XDR routines, with its
# header folder exported. PREFIX: of the routines' names in object files (prefix_xdr.cmake). STUBS: and rpcgen's client stubs and
# dispatch routine; MT: those for many threads (rpcgen -M). FOLDER: in front of the header's name where it is included.
find_program(RPCGEN_EXECUTABLE rpcgen REQUIRED)   # Debian: rpcsvc-proto; it runs /lib/cpp or cpp from PATH (package cpp)
function(rpcgen_add target xfile)
  cmake_parse_arguments(A "MT;STUBS" "PREFIX;FOLDER" "FLAGS" ${ARGN})
  get_filename_component(src ${xfile} ABSOLUTE)
  get_filename_component(base ${xfile} NAME_WE)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}.rpcgen)
  set(dir ${include})
  if(A_FOLDER)
    set(dir ${include}/${A_FOLDER})
  endif()
  file(MAKE_DIRECTORY ${dir})
  set(fl ${A_FLAGS})
  if(A_MT)
    list(APPEND fl -M)
  endif()
  set(outs)
  # Without STUBS those are sunrpc's own, asynchronous ones.
  set(parts "-h=.h" "-c=_xdr.c")
  if(A_STUBS)
    list(APPEND parts "-l=_clnt.c" "-m=_svc.c")
  endif()
  foreach(part ${parts})
    string(REGEX MATCH "^([^=]*)=(.*)$" part ${part})
    set(opt ${CMAKE_MATCH_1})
    set(suf ${CMAKE_MATCH_2})
    set(o ${dir}/${base}${suf})
    set(prefix)
    set(prefixing)
    if(A_PREFIX AND suf STREQUAL ".h")
      set(prefix COMMAND ${CMAKE_COMMAND} -DHEADER=${o} -DPREFIX=${A_PREFIX} -P ${PROJECT_SOURCE_DIR}/cmake/prefix_xdr.cmake)
      set(prefixing ${PROJECT_SOURCE_DIR}/cmake/prefix_xdr.cmake)
    endif()
    # rpcgen refuses to overwrite (-o onto an existing file exits 1) and bakes the *given* input path into
    # the #include it emits: copy next to the outputs, run there with a bare name, remove the old output first.
    add_custom_command(OUTPUT ${o}
      COMMAND ${CMAKE_COMMAND} -E rm -f ${o}
      COMMAND ${CMAKE_COMMAND} -E copy_if_different ${src} ${dir}/${base}.x
      COMMAND ${RPCGEN_EXECUTABLE} -C ${fl} ${opt} -o ${base}${suf} ${base}.x
      ${prefix}
      WORKING_DIRECTORY ${dir} DEPENDS ${src} ${prefixing} VERBATIM)
    list(APPEND outs ${o})
  endforeach()
  add_library(${target} STATIC ${outs})
  set_source_files_properties(${outs} PROPERTIES COMPILE_OPTIONS "-w" LANGUAGE C)
  target_include_directories(${target} PUBLIC ${include})
  target_link_libraries(${target} PUBLIC PkgConfig::TIRPC)
endfunction()
