#include "tools/rpcrdma_stress/object.hpp"

namespace nfsrdma::stress {
namespace {

std::string differs(const char* what, std::uint64_t expected, std::uint64_t got) {
    return std::string(what) + ": expected " + std::to_string(expected) + ", got " +
           std::to_string(got);
}

constexpr std::uint32_t kModeBits = 07777;
// A directory inherits set-group-id from its parent where the file system does so.
constexpr std::uint32_t kPermissions = 0777;

}  // namespace

std::string check_attributes(const fattr3& attributes, Object& object) {
    const std::int32_t type = nfs::client::raw_value(attributes.type);
    if (type != object.type) return differs("type", object.type, static_cast<std::uint64_t>(type));
    if (object.fileid == 0) object.fileid = attributes.fileid;
    if (attributes.fileid != object.fileid)
        return differs("fileid", object.fileid, attributes.fileid);
    if (object.type == NF3REG &&
        (attributes.size < object.model.size() || attributes.size > object.model.size_max()))
        return differs("size", object.model.size(), attributes.size);
    if (object.type == NF3LNK && attributes.size != object.text.size())
        return differs("size of the link", object.text.size(), attributes.size);
    const std::uint32_t mode = attributes.mode & (object.type == NF3DIR ? kPermissions : kModeBits);
    if (object.type != NF3LNK && mode != object.mode) return differs("mode", object.mode, mode);
    if (object.type != NF3DIR && attributes.nlink != object.names.size())
        return differs("nlink", object.names.size(), attributes.nlink);
    return {};
}

std::string check_attributes(const post_op_attr& attributes, Object& object) {
    if (attributes.attributes_follow == FALSE) return {};
    return check_attributes(attributes.post_op_attr_u.attributes, object);
}

}  // namespace nfsrdma::stress
