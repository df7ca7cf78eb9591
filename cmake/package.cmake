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
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# The library's ABI is that of its minor version, and so is the package: several can be installed.
set(library libnfsrdma${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
# Programs that are linked with it say so in their packages' dependencies; the linker's cache is made anew by a trigger.
file(WRITE ${PROJECT_BINARY_DIR}/debian/shlibs "libnfsrdma ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} ${library} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/shlibs ${PROJECT_BINARY_DIR}/debian/triggers)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "The library: a transport for programs of libtirpc, and in C++ the
RPC-over-RDMA protocol (RFC 8166) and a client of NFS version 3 on it. Works
over any RDMA device, and without one over its own RoCEv2 device.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libnfsrdma-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-1), pkgconf | pkg-config, libtirpc-dev, liburing-dev, libisal-dev, libspdlog-dev")
if(TARGET nr_rdmacore)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libibverbs-dev, librdmacm-dev")
endif()
set(CPACK_COMPONENT_DEV_DESCRIPTION "For development: headers for C and C++20, the static library, files for
pkg-config and for CMake's find_package, and examples.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME nfsrdma)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION net)
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "fuse3, ibverbs-providers")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS rpcbind)
# Of the service: it is not started when it is installed, as nothing is exported yet; an update restarts one that runs.
set(CPACK_DEBIAN_TOOLS_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/prerm
    ${PROJECT_SOURCE_DIR}/cmake/debian/postrm)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "The programs: a server of NFS version 3 and a client with a mount by FUSE,
over any RDMA device, or without one over a RoCEv2 device of their own, with
no need for RDMA in the kernel or for privileges; tools for ping, load, benchmarks
and diagnosis.")
include(CPack)
