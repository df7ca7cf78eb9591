#pragma once
// The one place that says which version of libfuse's interface is used.
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
