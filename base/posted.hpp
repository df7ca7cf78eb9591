#pragma once
#include "base/loop.hpp"

namespace nfsrdma {

// What crosses from another thread to a loop: exactly one of the three.
struct Posted {
    Task* task = nullptr;
    FileOp* op = nullptr;
    BlockingWork* work = nullptr;
};

}  // namespace nfsrdma
