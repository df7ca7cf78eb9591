# cmake -DHEADER=file -DPREFIX=text -P: lets rpcgen's XDR routines have a prefix in object files, so that a program which links this
# library may have routines of the same .x file, and of other types, itself. In sources they keep their names.
file(READ ${HEADER} text)
string(REGEX MATCHALL "xdr_[A-Za-z0-9_]+" names "${text}")
list(REMOVE_DUPLICATES names)
set(defines)
foreach(name ${names})
  string(APPEND defines "#define ${name} ${PREFIX}${name}\n")
endforeach()
string(REPLACE "#include <rpc/rpc.h>\n" "#include <rpc/rpc.h>\n\n${defines}" text "${text}")
file(WRITE ${HEADER} "${text}")
