# Run by cpack before it makes the packages: what Debian's policy wants in each, and no other way of installing has.
file(GLOB components LIST_DIRECTORIES true ${CPACK_TEMPORARY_DIRECTORY}/*)
string(TIMESTAMP date "%a, %d %b %Y 00:00:00 +0000" UTC)
file(READ ${CPACK_NFSRDMA_SOURCE}/LICENSE license)
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" license "${license}")
foreach(component ${components})
  if(NOT IS_DIRECTORY ${component})
    continue()
  endif()
  get_filename_component(name ${component} NAME)
  string(TOUPPER ${name} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  if(NOT package)
    continue()
  endif()
  set(doc ${component}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${doc})
  file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: nfsrdma

Files: *
Copyright: the developers of nfsrdma
License: BSD-3-Clause
 ${license}")
  file(WRITE ${doc}/changelog.Debian "nfsrdma (${CPACK_PACKAGE_VERSION}-1) unstable; urgency=medium

  * See CHANGELOG.md of the sources.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  if(EXISTS ${doc}/CHANGELOG.md)
    file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
    execute_process(COMMAND gzip -9n ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
  endif()
  file(GLOB pages ${component}/usr/share/man/man*/*)
  execute_process(COMMAND gzip -9nf ${doc}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND chmod -R u=rwX,go=rX ${component} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
