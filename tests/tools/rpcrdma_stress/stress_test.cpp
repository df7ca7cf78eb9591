#include "tools/rpcrdma_stress/stress.hpp"

#include <algorithm>
#include <vector>

#include "tests/tools/rpcrdma_stress/stress_world.hpp"

namespace nfsrdma::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Stress, AServerThatIsRightPassesAndNothingIsLeftBehind) {
    StressWorld<VfsWrap> w;
    const stress::StressResult result = w.run();
    EXPECT_TRUE(result.ok) << to_text(result, w.options);
    EXPECT_EQ(result.steps, 2000u);
    for (std::size_t i = 0; i < stress::kKinds; ++i)
        EXPECT_GT(result.tally.steps[i], 0u) << to_string(static_cast<stress::Kind>(i));
    EXPECT_GT(result.tally.bytes_verified, 1u << 20);
    EXPECT_EQ(result.connects, 2u);
    EXPECT_EQ(w.left_behind(), "");
}

TEST(Stress, CancelsAndDisconnectsAreNoMismatch) {
    StressWorld<VfsWrap> w;
    w.options.ops = 4000;
    w.options.cancel_rate = 0.2;
    w.options.disconnect_rate = 0.01;
    const stress::StressResult result = w.run();
    EXPECT_TRUE(result.ok) << to_text(result, w.options);
    EXPECT_GT(result.tally.cancelled, 20u);
    EXPECT_GT(result.tally.disconnected, 5u);
    EXPECT_EQ(result.connects, 2 + result.tally.disconnected);
    EXPECT_GT(result.tally.files_given_up, 5u);
    EXPECT_EQ(result.tally.lost, 0u);
    EXPECT_EQ(w.left_behind(), "");
}

TEST(Stress, EqualSeedsMakeEqualSequences) {
    std::vector<std::uint64_t> fingerprints;
    for (const std::uint64_t seed : {5u, 5u, 6u}) {
        StressWorld<VfsWrap> w;
        w.options.seed = seed;
        w.options.ops = 400;
        w.options.cancel_rate = 0.1;
        fingerprints.push_back(w.run().fingerprint);
    }
    EXPECT_EQ(fingerprints[0], fingerprints[1]);
    EXPECT_NE(fingerprints[0], fingerprints[2]);
}

TEST(Stress, KeepLeavesTheDirectory) {
    StressWorld<VfsWrap> w;
    w.options.ops = 100;
    w.options.keep = true;
    const stress::StressResult result = w.run();
    EXPECT_TRUE(result.ok) << to_text(result, w.options);
    EXPECT_THAT(result.directory, HasSubstr("/export/rpcrdma-stress-"));
    EXPECT_THAT(w.left_behind(), HasSubstr("rpcrdma-stress-"));
}

TEST(Stress, AFullServerIsToldWithAdvice) {
    struct Full final : VfsWrap {
        Full() : VfsWrap(nfs::VfsMemOptions{.capacity_bytes = 10 << 20}) {}
    };
    StressWorld<Full> w;
    w.options.files = 8;
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, HasSubstr("--files"));
    EXPECT_THAT(result.mismatch, IsEmpty());
    EXPECT_EQ(w.left_behind(), "");
}

// What goes wrong at every n-th WRITE or READ of more than a few bytes.
struct Wrong : VfsWrap {
    bool now(std::size_t size) noexcept { return size >= 256 && ++calls % 20 == 0; }
    std::uint64_t calls = 0;
};

template <class Backend>
std::string found() {
    StressWorld<Backend> w;
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, IsEmpty());
    EXPECT_THAT(result.before, Not(IsEmpty()));
    const std::string json = to_json(result, w.options);
    EXPECT_THAT(json, HasSubstr("\"ok\":false"));
    EXPECT_THAT(json, HasSubstr("\"mismatch\":"));
    EXPECT_EQ(w.left_behind(), "");
    return result.mismatch;
}

struct FlipsABit final : Wrong {
    nfsstat3 write_now(const nfs::IoFile& file, std::uint64_t offset,
                       std::span<const std::byte> from, std::uint32_t& moved) noexcept override {
        std::vector<std::byte> copy(from.begin(), from.end());
        if (now(from.size())) copy[from.size() / 2] ^= std::byte{0x10};
        return VfsWrap::write_now(file, offset, copy, moved);
    }
};
TEST(StressFinds, AFlippedBit) {
    const std::string what = found<FlipsABit>();
    EXPECT_THAT(what, HasSubstr("differs at offset"));
    EXPECT_THAT(what, HasSubstr(", 1 bytes;"));
    EXPECT_THAT(what, HasSubstr("read again: the same"));
}

struct LosesAWrite final : Wrong {
    nfsstat3 write_now(const nfs::IoFile& file, std::uint64_t offset,
                       std::span<const std::byte> from, std::uint32_t& moved) noexcept override {
        nfs::Attr attr;
        const bool inside =
            VfsWrap::io_attr(file, attr) == NFS3_OK && offset + from.size() <= attr.size;
        if (!inside || !now(from.size())) return VfsWrap::write_now(file, offset, from, moved);
        moved = static_cast<std::uint32_t>(from.size());
        return NFS3_OK;
    }
};
TEST(StressFinds, AWriteThatWasLost) {
    const std::string what = found<LosesAWrite>();
    EXPECT_THAT(what, ::testing::AnyOf(HasSubstr("got stale"), HasSubstr("got zeros")));
}

struct TearsAWrite final : Wrong {
    nfsstat3 write_now(const nfs::IoFile& file, std::uint64_t offset,
                       std::span<const std::byte> from, std::uint32_t& moved) noexcept override {
        const nfsstat3 status = VfsWrap::write_now(file, offset, from, moved);
        if (!now(from.size())) return status;
        const std::vector<std::byte> zeros(from.size() / 2);
        std::uint32_t ignored = 0;
        return VfsWrap::write_now(file, offset + from.size() - zeros.size(), zeros, ignored);
    }
};
TEST(StressFinds, AWriteThatWasTorn) {
    EXPECT_THAT(found<TearsAWrite>(), HasSubstr("torn"));
}

struct Misplaces final : Wrong {
    nfsstat3 read_now(const nfs::IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                      std::uint32_t& moved) noexcept override {
        const nfsstat3 status = VfsWrap::read_now(file, offset, into, moved);
        if (moved >= 512 && now(moved)) std::copy_n(into.begin() + 64, 192, into.begin() + 256);
        return status;
    }
};
TEST(StressFinds, BytesInTheWrongPlaceOnTheWay) {
    const std::string what = found<Misplaces>();
    EXPECT_THAT(
        what, ::testing::AnyOf(HasSubstr("misplaced"), HasSubstr("stale"), HasSubstr("got zeros")));
    EXPECT_THAT(what, HasSubstr("read again: right"));
}

struct MixesFiles final : Wrong {
    nfsstat3 write_now(const nfs::IoFile& file, std::uint64_t offset,
                       std::span<const std::byte> from, std::uint32_t& moved) noexcept override {
        std::vector<std::byte> copy(from.begin(), from.end());
        if (from.size() >= 256 && from.size() <= last.size() && now(from.size()))
            std::copy_n(last.begin(), copy.size(), copy.begin());
        last.assign(from.begin(), from.end());
        return VfsWrap::write_now(file, offset, copy, moved);
    }
    std::vector<std::byte> last;
};
TEST(StressFinds, BytesOfAnotherFile) {
    EXPECT_THAT(found<MixesFiles>(),
                ::testing::AnyOf(HasSubstr("another file's"), HasSubstr("misplaced")));
}

struct ForgetsASize final : VfsWrap {
    nfsstat3 setattr(const Cred& cred, NodeId node, const nfs::SetAttr& set, const nfs::Time* guard,
                     nfs::Wcc& wcc) noexcept override {
        nfs::SetAttr less = set;
        if (++calls % 50 == 0) less.size.reset();
        return VfsWrap::setattr(cred, node, less, guard, wcc);
    }
    std::uint64_t calls = 0;
};
TEST(StressFinds, ASizeThatWasNotSet) {
    EXPECT_THAT(found<ForgetsASize>(), HasSubstr("size: expected"));
}

struct ForgetsAName final : VfsWrap {
    nfsstat3 readdir(const Cred& cred, const nfs::ReadDir& what, nfs::DirSink& sink,
                     bool& eof) noexcept override {
        struct Skipping final : nfs::DirSink {
            explicit Skipping(nfs::DirSink& to) : next(to) {}
            bool add(const nfs::DirEntry& entry) noexcept override {
                return entry.name[0] == 'r' || next.add(entry);
            }
            nfs::DirSink& next;
        } skipping(sink);
        return VfsWrap::readdir(cred, what, skipping, eof);
    }
};
TEST(StressFinds, ANameThatIsMissing) {
    StressWorld<ForgetsAName> w;
    const stress::StressResult result = w.run();
    EXPECT_THAT(result.mismatch, HasSubstr("is missing"));
}

struct KeepsRemoved final : VfsWrap {
    nfsstat3 remove(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept override {
        if (++calls == 30) return NFS3_OK;
        return VfsWrap::remove(cred, what, dir);
    }
    std::uint64_t calls = 0;
};
TEST(StressFinds, AFileThatWasNotRemoved) {
    const std::string what = found<KeepsRemoved>();
    EXPECT_THAT(what, ::testing::AnyOf(HasSubstr("a name that is not there"), HasSubstr("nlink")));
}

struct ReadsTooLittle final : Wrong {
    nfsstat3 io_attr(const nfs::IoFile& file, nfs::Attr& out) noexcept override {
        const nfsstat3 status = VfsWrap::io_attr(file, out);
        if (out.size > 4096 && now(out.size)) out.size -= 1;
        return status;
    }
};
TEST(StressFinds, AFileThatEndsTooEarly) {
    const std::string what = found<ReadsTooLittle>();
    EXPECT_THAT(what,
                ::testing::AnyOf(HasSubstr("the end too early"), HasSubstr("size: expected")));
}

}  // namespace
}  // namespace nfsrdma::testing
