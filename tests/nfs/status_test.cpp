#include "nfs/status.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

TEST(Status, ErrnoBecomesItsStatus) {
    EXPECT_EQ(status_of(0), NFS3_OK);
    EXPECT_EQ(status_of(ENOENT), NFS3ERR_NOENT);
    EXPECT_EQ(status_of(ENAMETOOLONG), NFS3ERR_NAMETOOLONG);
    EXPECT_EQ(status_of(ENOTEMPTY), NFS3ERR_NOTEMPTY);
    EXPECT_EQ(status_of(EDQUOT), NFS3ERR_DQUOT);
    EXPECT_EQ(status_of(ESTALE), NFS3ERR_STALE);
    EXPECT_EQ(status_of(EMFILE), NFS3ERR_JUKEBOX);
    EXPECT_EQ(status_of(EOPNOTSUPP), NFS3ERR_NOTSUPP);
}

TEST(Status, UnknownErrnoIsIo) {
    EXPECT_EQ(status_of(EBADF), NFS3ERR_IO);
    EXPECT_EQ(status_of(99999), NFS3ERR_IO);
    EXPECT_EQ(status_of(-1), NFS3ERR_IO);
}

TEST(Status, NamesAreThoseOfTheRfc) {
    EXPECT_STREQ(to_string(NFS3ERR_BAD_COOKIE), "NFS3ERR_BAD_COOKIE");
    EXPECT_STREQ(to_string(static_cast<nfsstat3>(4711)), "NFS3ERR unknown");
}

}  // namespace
}  // namespace nfsrdma::nfs
