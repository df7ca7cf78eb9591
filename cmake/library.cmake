# What is installed for programs that embed this one: one shared and one static library of all folders, and the headers of
# headers.cmake. The folders' own libraries are the build's. See docs/adr/0022.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(${CMAKE_CURRENT_LIST_DIR}/headers.cmake)
find_package(Python3 COMPONENTS Interpreter REQUIRED)

set(nr_folders nr_base nr_sunrpc nr_verbs nr_softroce nr_rpcrdma nr_pools nr_xprtrdma nr_svcrdma nr_nfs nr_nfs_xdr nr_mount_xdr
    nr_devices nr_tirpc)
if(TARGET nr_rdmacore)
  list(APPEND nr_folders nr_rdmacore)
endif()
set(nr_objects)
foreach(folder ${nr_folders})
  list(APPEND nr_objects $<TARGET_OBJECTS:${folder}>)
endforeach()
set(nr_external PkgConfig::URING PkgConfig::ISAL spdlog::spdlog Threads::Threads ${CMAKE_DL_LIBS})
# Of which a static library tells those who link it.
set(nr_static_packages liburing libisal spdlog)
if(TARGET nr_rdmacore)
  list(APPEND nr_external PkgConfig::IBVERBS PkgConfig::RDMACM)
  list(APPEND nr_static_packages libibverbs librdmacm)
endif()

# 0.x: the C++ face changes with each minor version, so the minor version is of the library's name.
set(nr_abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(nr_include ${CMAKE_INSTALL_INCLUDEDIR}/nfsrdma)
get_target_property(nr_nfs_xdr_dir nr_nfs_xdr INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(nr_mount_xdr_dir nr_mount_xdr INTERFACE_INCLUDE_DIRECTORIES)
set(nr_generated_headers ${nr_nfs_xdr_dir}/nfs/rpcgen/nfs3.h ${nr_mount_xdr_dir}/nfs/rpcgen/mount3.h)

set(map ${PROJECT_BINARY_DIR}/nfsrdma.map)
list(TRANSFORM nr_installed_headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE header_paths)
string(REPLACE ";" "," generated "${nr_generated_headers}")
add_custom_command(OUTPUT ${map}
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/exports.py ${PROJECT_SOURCE_DIR} ${nr_abi} ${map} ${generated}
    ${nr_installed_headers}
  DEPENDS ${header_paths} ${nr_generated_headers} ${PROJECT_SOURCE_DIR}/cmake/exports.py ${PROJECT_SOURCE_DIR}/cmake/headers.cmake
  VERBATIM)
# rpcgen's headers are made by the targets of their folders.
add_custom_target(nfsrdma_map DEPENDS ${map})
add_dependencies(nfsrdma_map nr_nfs_xdr nr_mount_xdr)

function(nr_installed_library target kind name)
  add_library(${target} ${kind} ${nr_objects})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME nfsrdma EXPORT_NAME ${name} LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_link_libraries(${target} PUBLIC $<BUILD_INTERFACE:PkgConfig::TIRPC> $<INSTALL_INTERFACE:PkgConfig::nfsrdma_tirpc>)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${nr_include}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()
nr_installed_library(nfsrdma_shared SHARED nfsrdma)
nr_installed_library(nfsrdma_static STATIC static)

set_target_properties(nfsrdma_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${nr_abi} LINK_DEPENDS ${map})
add_dependencies(nfsrdma_shared nfsrdma_map)
target_link_libraries(nfsrdma_shared PRIVATE ${nr_external})
target_link_options(nfsrdma_shared PRIVATE -Wl,--version-script=${map} -Wl,-z,defs -Wl,-Bsymbolic-functions -Wl,--as-needed)
foreach(package ${nr_static_packages})
  target_link_libraries(nfsrdma_static INTERFACE $<INSTALL_INTERFACE:PkgConfig::nfsrdma_${package}>)
endforeach()
target_link_libraries(nfsrdma_static INTERFACE $<INSTALL_INTERFACE:Threads::Threads> $<INSTALL_INTERFACE:${CMAKE_DL_LIBS}>)

# Headers, where they find each other by the names that they have here.
foreach(header ${nr_installed_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${nr_include}/${folder} COMPONENT dev)
endforeach()
install(FILES ${nr_generated_headers} DESTINATION ${nr_include}/nfs/rpcgen COMPONENT dev)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/libnfsrdma-dev COMPONENT dev OPTIONAL)

install(TARGETS nfsrdma_shared EXPORT nfsrdma
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS nfsrdma_static EXPORT nfsrdma ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
string(REPLACE ";" " " static_packages "${nr_static_packages}")
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nfsrdma)
install(EXPORT nfsrdma NAMESPACE nfsrdma:: FILE nfsrdmaTargets.cmake DESTINATION ${config_dir} COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/nfsrdmaConfig.cmake.in ${PROJECT_BINARY_DIR}/nfsrdmaConfig.cmake
  INSTALL_DESTINATION ${config_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nfsrdmaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nfsrdmaConfig.cmake ${PROJECT_BINARY_DIR}/nfsrdmaConfigVersion.cmake
  DESTINATION ${config_dir} COMPONENT dev)

# Twice: the prefix is known when it is installed, and may be another than that of the configuration (cmake --install --prefix).
foreach(dir LIBDIR INCLUDEDIR)
  set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${dir}})
    set(pc_${dir} ${CMAKE_INSTALL_${dir}})
  endif()
endforeach()
set(pc_prefix "@prefix@")
foreach(file nfsrdma.pc nfsrdma-static.pc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${file}.in ${PROJECT_BINARY_DIR}/${file}.in @ONLY)
  install(CODE "
    set(prefix \${CMAKE_INSTALL_PREFIX})
    configure_file(${PROJECT_BINARY_DIR}/${file}.in ${PROJECT_BINARY_DIR}/${file} @ONLY)" COMPONENT dev)
  install(FILES ${PROJECT_BINARY_DIR}/${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endforeach()

# The API reference. A warning is an error.
find_program(DOXYGEN_EXECUTABLE doxygen)
if(DOXYGEN_EXECUTABLE)
  list(JOIN header_paths " " docs_input)
  set(docs_input "${PROJECT_SOURCE_DIR}/docs/api.md ${docs_input}")
  configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${DOXYGEN_EXECUTABLE} ${PROJECT_BINARY_DIR}/Doxyfile VERBATIM)
endif()
