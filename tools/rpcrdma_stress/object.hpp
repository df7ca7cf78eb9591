#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "nfs/client/client.hpp"
#include "tools/rpcrdma_stress/file_model.hpp"

namespace nfsrdma::stress {

// A name in one of a worker's directories.
struct Name {
    std::uint32_t dir = 0;
    std::string text;
    bool operator==(const Name&) const = default;
};

// What a worker made, and what it must be like.
struct Object {
    ftype3 type = NF3REG;
    std::vector<Name> names;
    nfs::client::FileHandle handle;
    std::uint64_t fileid = 0;  // 0: not known yet
    std::uint32_t mode = 0;
    FileModel model;   // of a file
    std::string text;  // of a symbolic link
};

// What stands in a directory. Names of which nothing is sure may be there or not: a call whose
// answer was given up may be executed at any time. No name is used twice.
struct Directory {
    nfs::client::FileHandle handle;
    std::set<std::string> certain, maybe;
};

// Empty when `attributes` is what the object must be like; learns its number.
std::string check_attributes(const fattr3& attributes, Object& object);
std::string check_attributes(const post_op_attr& attributes, Object& object);

}  // namespace nfsrdma::stress
