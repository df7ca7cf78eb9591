#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnReadlink : public NfsTest {
  protected:
    std::pair<nfsstat3, std::string> readlink(const Handle& link, std::uint32_t room) {
        std::pair<nfsstat3, std::string> out;
        sunrpc::Payload payload;
        if (room != 0) payload = *w.xprt->get_payload(room);
        w.call<READLINK3args, READLINK3res>(NFSPROC3_READLINK, {link.fh()}, payload.memory(),
                                            [&](READLINK3res& res) {
                                                out.first = res.status;
                                                if (res.status != NFS3_OK) return;
                                                char*& data = res.READLINK3res_u.resok.data;
                                                out.second = data;
                                                if (room != 0) data = nullptr;
                                            });
        return out;
    }
    Handle link(const std::string& name, const std::string& target) {
        EXPECT_EQ(w.symlink(w.root, name, target)->status, NFS3_OK);
        return w.find(w.root, name);
    }
};
NR_ON_BACKENDS(OnReadlink);

TEST_P(OnReadlink, PathComesByChunkAndInline) {
    for (const std::size_t size : {1u, 2u, 3u, 4u, 100u, 1001u, 4095u}) {
        const std::string target(size, 't');
        const Handle handle = link("l" + std::to_string(size), target);
        EXPECT_EQ(readlink(handle, NFS3_PATH_MAX + 1).second, target);
        EXPECT_EQ(readlink(handle, 0).second, target);
    }
}

TEST_P(OnReadlink, WhatIsNoLinkIsInvalid) {
    EXPECT_EQ(readlink(w.file(w.root, "f"), 0).first, NFS3ERR_INVAL);
    EXPECT_EQ(readlink(w.root, 0).first, NFS3ERR_INVAL);
    EXPECT_EQ(readlink(Handle{}, 0).first, NFS3ERR_BADHANDLE);
}

}  // namespace
}  // namespace nfsrdma::testing
