#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnWrite : public NfsTest {};
class B72 : public NfsTest {};
class B103 : public NfsTest {};
class B90 : public NfsTest {};
class B125 : public NfsTest {};
NR_ON_BACKENDS(OnWrite);
NR_ON_BACKENDS(B72);
INSTANTIATE_TEST_SUITE_P(On, B103, ::testing::Values(Backend::posix));  // mem is bounded
NR_ON_BACKENDS(B90);
NR_ON_BACKENDS(B125);

std::string verifier_of(const writeverf3& verf) {
    return {verf, sizeof(writeverf3)};
}

TEST_P(OnWrite, EachStabilityIsCommittedAsAsked) {
    const Handle file = w.file(w.root, "f");
    for (const stable_how stable : {UNSTABLE, DATA_SYNC, FILE_SYNC}) {
        auto reply = w.write(file, 0, "hello", stable);
        ASSERT_EQ(reply->status, NFS3_OK);
        EXPECT_EQ(reply->WRITE3res_u.resok.committed, stable);
        EXPECT_EQ(reply->WRITE3res_u.resok.count, 5u);
    }
    EXPECT_EQ(w.read(file, 0, 10).data, "hello");
}

TEST_P(OnWrite, DataComesByChunkWithAndWithoutPadAndInline) {
    const Handle file = w.file(w.root, "f");
    for (const bool inline_data : {false, true}) {
        w.xprt->options().arg_chunk_min = inline_data ? UINT32_MAX : 0;
        for (const bool pad : {false, true}) {
            w.xprt->options().pad_in_chunk = pad;
            for (const std::size_t size : {1u, 2u, 3u, 4u, 5u, 4097u, 65535u}) {
                const std::string data(size, static_cast<char>('a' + size % 26));
                auto reply = w.write(file, 7, data);
                ASSERT_EQ(reply->status, NFS3_OK);
                EXPECT_EQ(reply->WRITE3res_u.resok.count, size);
                EXPECT_EQ(w.read(file, 7, narrow<std::uint32_t>(size)).data, data);
            }
        }
    }
}

TEST_P(OnWrite, WccTellsBeforeAndAfter) {
    const Handle file = w.file(w.root, "f", "abc");
    auto reply = w.write(file, 3, "defg");
    const wcc_data& wcc = reply->WRITE3res_u.resok.file_wcc;
    ASSERT_NE(wcc.before.attributes_follow, FALSE);
    EXPECT_EQ(wcc.before.pre_op_attr_u.attributes.size, 3u);
    EXPECT_EQ(wcc.after.post_op_attr_u.attributes.size, 7u);
}

TEST_P(OnWrite, DirectoryAndLinkAndStaleAreRefused) {
    auto reply = w.write(w.root, 0, "x");
    EXPECT_EQ(reply->status, NFS3ERR_ISDIR);
    EXPECT_NE(reply->WRITE3res_u.resfail.file_wcc.after.attributes_follow, FALSE);
    const Handle file = w.file(w.root, "gone");
    w.remove(w.root, "gone");
    EXPECT_EQ(w.write(file, 0, "x")->status, NFS3ERR_STALE);
}

TEST_P(OnWrite, OffsetsBeyondTheRangeAreFbig) {
    const Handle file = w.file(w.root, "f");
    EXPECT_EQ(w.write(file, UINT64_MAX, "x")->status, NFS3ERR_FBIG);
    EXPECT_EQ(w.write(file, 0x7fffffffffffffff, "x")->status, NFS3ERR_FBIG);
    EXPECT_EQ(w.attr(file).size, 0u);
}

TEST_P(OnWrite, StabilityThatIsNoneIsInvalid) {
    const Handle file = w.file(w.root, "f");
    stable_how stable = UNSTABLE;
    const std::int32_t none = 77;
    std::memcpy(&stable, &none, sizeof none);
    EXPECT_EQ(w.write(file, 0, "x", stable)->status, NFS3ERR_INVAL);
}

TEST_P(B103, MarksBeyondTwoAndFourGigabytes) {
    const Handle file = w.file(w.root, "sparse");
    ASSERT_EQ(w.write(file, 5ull << 30, "end")->status, NFS3_OK);
    for (const std::uint64_t offset :
         {0x7fffffffull, 0x80000000ull, 0xffffffffull, 0x100000000ull, 0x100000005ull}) {
        const std::string mark = std::to_string(offset);
        ASSERT_EQ(w.write(file, offset, mark.substr(0, 1))->status, NFS3_OK);
        EXPECT_EQ(w.read(file, offset, 1).data, mark.substr(0, 1));
    }
    EXPECT_EQ(w.attr(file).size, (5ull << 30) + 3);
    EXPECT_TRUE(w.read(file, 5ull << 30, 100).eof);
}

TEST_P(B72, CountAndLengthThatDiffer) {
    const Handle file = w.file(w.root, "f");
    EXPECT_EQ(w.write_count(file, 0, "abcd", 10, UNSTABLE)->status, NFS3ERR_INVAL);
    EXPECT_EQ(w.write_count(file, 0, "", 5, UNSTABLE)->status, NFS3ERR_INVAL);
    EXPECT_EQ(w.attr(file).size, 0u);
    auto reply = w.write_count(file, 0, "0123456789", 4, UNSTABLE);
    ASSERT_EQ(reply->status, NFS3_OK);
    EXPECT_EQ(reply->WRITE3res_u.resok.count, 4u);
    EXPECT_EQ(w.attr(file).size, 4u);
}

TEST_P(B72, CountZeroWritesNothing) {
    const Handle file = w.file(w.root, "f");
    for (const stable_how stable : {UNSTABLE, FILE_SYNC}) {
        auto reply = w.write_count(file, 100, "", 0, stable);
        ASSERT_EQ(reply->status, NFS3_OK);
        EXPECT_EQ(reply->WRITE3res_u.resok.count, 0u);
    }
    EXPECT_EQ(w.attr(file).size, 0u);
}

TEST_P(B90, WriteAndCommitHaveOneVerifier) {
    const Handle file = w.file(w.root, "f");
    auto write = w.write(file, 0, "x");
    auto commit = w.call<COMMIT3args, COMMIT3res>(NFSPROC3_COMMIT, {file.fh(), 0, 0});
    EXPECT_EQ(verifier_of(write->WRITE3res_u.resok.verf),
              verifier_of(commit->COMMIT3res_u.resok.verf));
    NfsWorld next(GetParam());
    const Handle other = next.file(next.root, "f");
    auto again = next.write(other, 0, "x");
    EXPECT_NE(verifier_of(write->WRITE3res_u.resok.verf),
              verifier_of(again->WRITE3res_u.resok.verf));
}

TEST_P(B125, BlocksInAnyOrderMakeTheSameFile) {
    constexpr std::size_t kBlock = 65536, kBlocks = 16;
    const Handle file = w.file(w.root, "f");
    std::string expected(kBlock * kBlocks, '\0');
    for (std::size_t i = 0; i < kBlocks; ++i) {
        const std::size_t k = i * 7 % kBlocks;
        const std::string block(kBlock, static_cast<char>('A' + k));
        expected.replace(k * kBlock, kBlock, block);
        w.write(file, k * kBlock, block);
    }
    EXPECT_EQ(w.read(file, 0, 1 << 20).data, expected);
}

}  // namespace
}  // namespace nfsrdma::testing
