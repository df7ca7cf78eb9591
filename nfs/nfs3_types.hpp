#pragma once
// The C types and XDR routines that rpcgen makes of nfs3.x and mount3.x. Their directories are
// system include directories, so that our warnings leave generated code alone. They carry a `data`
// DDP item and the like by offset: see nfs/binding.hpp.
#include <nfs/rpcgen/mount3.h>
#include <nfs/rpcgen/nfs3.h>
