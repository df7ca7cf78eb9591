# Debian packages, by cpack from the build of preset `package` (scripts/package): the library, what is for building with it, and the
# programs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME nfsrdma)
set(CPACK_PACKAGE_VENDOR nfsrdma)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The developers of nfsrdma <developers@nfsrdma.invalid>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
# Where things say their own place (the unit, pkg-config's files), it is the one where they will be.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian_files.cmake)
set(CPACK_NFSRDMA_SOURCE ${PROJECT_SOURCE_DIR})

set(CPACK_COMPONENTS_ALL tools)
if(TARGET nfsrdma_shared)
  set(CPACK_COMPONENTS_ALL runtime dev tools)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# The library's ABI is that of its minor version, and so is the package: several can be installed.
set(library libnfsrdma${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "ONC RPC over RDMA in user space, the library
 A transport for programs of libtirpc, and a C++ library of the RPC-over-RDMA
 protocol (RFC 8166) and of NFS version 3 on it. Works over any RDMA device, and
 without one over its own RoCEv2 device.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libnfsrdma-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-1), libtirpc-dev, liburing-dev, libisal-dev, libspdlog-dev")
if(TARGET nr_rdmacore)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libibverbs-dev, librdmacm-dev")
endif()
set(CPACK_COMPONENT_DEV_DESCRIPTION "ONC RPC over RDMA in user space, for development
 Headers for C and C++20, the static library, and files for pkg-config and for
 CMake's find_package.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME nfsrdma)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "fuse3, ibverbs-providers")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS rpcbind)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "NFS over RDMA in user space, server, mount and tools
 An NFS version 3 server and a client with a mount by FUSE, over any RDMA device,
 and without one over a RoCEv2 device of their own, with no need for RDMA in the
 kernel or for privileges. Ping, stress, benchmark and diagnosis tools with it.")
include(CPack)
