#include "tests/nfs/nfs_world.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/vfs_wrap.hpp"

namespace nfsrdma::testing {
namespace {

class OnRead : public NfsTest {};
class B71 : public NfsTest {};
class B74 : public NfsTest {};
class B75 : public NfsTest {};
NR_ON_BACKENDS(OnRead);
NR_ON_BACKENDS(B71);
NR_ON_BACKENDS(B74);
NR_ON_BACKENDS(B75);

std::string pattern(std::size_t size) {
    std::string out(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
        out[i] = static_cast<char>('a' + i % 23 + i / 4096 % 3);
    return out;
}

TEST_P(OnRead, BytesComeByChunkAndInline) {
    const std::string content = pattern(10'000);
    const Handle file = w.file(w.root, "f", content);
    for (const std::uint32_t room : {0u, 1u << 20}) {
        const ReadReply all = w.read(file, 0, 10'000, room);
        EXPECT_EQ(all.status, NFS3_OK);
        EXPECT_TRUE(all.has_attr);
        EXPECT_EQ(all.data, content);
        const ReadReply part = w.read(file, 4097, 1003, room);
        EXPECT_EQ(part.data, content.substr(4097, 1003));
        EXPECT_FALSE(part.eof);
    }
    EXPECT_EQ(w.dispatcher.counters().payload_copied_bytes, 0u);
}

TEST_P(OnRead, DirectoryAndLinkAndStaleAreRefused) {
    EXPECT_EQ(w.read(w.root, 0, 10).status, NFS3ERR_ISDIR);
    EXPECT_EQ(w.symlink(w.root, "l", "target")->status, NFS3_OK);
    EXPECT_EQ(w.read(w.find(w.root, "l"), 0, 10).status, NFS3ERR_INVAL);
    const Handle file = w.file(w.root, "gone", "x");
    EXPECT_EQ(w.remove(w.root, "gone")->status, NFS3_OK);
    EXPECT_EQ(w.read(file, 0, 10).status, NFS3ERR_STALE);
    EXPECT_EQ(w.read(Handle{{'x'}}, 0, 10).status, NFS3ERR_BADHANDLE);
}

TEST_P(OnRead, WaitsForMemoryAndGoesOn) {
    const Handle file = w.file(w.root, "f", "hello");
    w.xprt->server().set_dry(true);
    struct Refill : Timer {
        Refill(Fire f, DirectSvcXprt& s) noexcept : Timer(f), server(s) {}
        DirectSvcXprt& server;
    } later([](Timer& t) noexcept { static_cast<Refill&>(t).server.set_dry(false); },
            w.xprt->server());
    w.world.loop->arm(later, w.world.loop->now_ns() + kNsPerMs);
    const ReadReply reply = w.read(file, 0, 5);
    EXPECT_EQ(reply.data, "hello");
    EXPECT_GE(w.world.loop->now_ns(), later.deadline_ns());
}

TEST_P(B71, CountIsClippedToRtmaxAndToTheChunk) {
    const std::string content = pattern((1 << 20) + 4096);
    const Handle file = w.file(w.root, "f", content.substr(0, 1 << 20));
    w.write(file, 1 << 20, content.substr(1 << 20));
    for (const std::uint32_t count : {0xffffffffu, (1u << 20) + 1, 1u << 20}) {
        const ReadReply reply = w.read(file, 0, count);
        EXPECT_EQ(reply.status, NFS3_OK);
        EXPECT_EQ(reply.count, 1u << 20);
        EXPECT_FALSE(reply.eof);
        EXPECT_EQ(reply.data, content.substr(0, 1 << 20));
    }
    const ReadReply small = w.read(file, 0, 1 << 20, 4096);
    EXPECT_EQ(small.count, 4096u);
    EXPECT_FALSE(small.eof);
}

TEST_P(B71, CountZeroIsOkWithoutBytes) {
    const Handle file = w.file(w.root, "f", "abc");
    const ReadReply reply = w.read(file, 0, 0);
    EXPECT_EQ(reply.status, NFS3_OK);
    EXPECT_EQ(reply.count, 0u);
    EXPECT_FALSE(reply.eof);
    EXPECT_TRUE(w.read(file, 3, 0).eof);
}

TEST_P(B74, EofIsSetExactlyAtTheEnd) {
    const Handle file = w.file(w.root, "f", pattern(100));
    struct Row {
        std::uint64_t offset;
        std::uint32_t count;
        bool eof;
    };
    for (const Row& row : {Row{0, 100, true}, Row{0, 99, false}, Row{100, 10, true},
                           Row{200, 10, true}, Row{99, 1, true}, Row{0, 101, true}}) {
        const ReadReply reply = w.read(file, row.offset, row.count);
        EXPECT_EQ(reply.status, NFS3_OK);
        EXPECT_EQ(reply.eof, row.eof) << row.offset << "+" << row.count;
    }
    const Handle empty = w.file(w.root, "empty");
    EXPECT_TRUE(w.read(empty, 0, 1).eof);
}

// A file that another caller writes to as soon as it was read.
class Growing final : public VfsWrap {
  public:
    nfsstat3 read_now(const nfs::IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                      std::uint32_t& moved) noexcept override {
        const nfsstat3 status = VfsWrap::read_now(file, offset, into, moved);
        std::uint32_t written = 0;
        const std::byte more[8]{};
        EXPECT_EQ(VfsWrap::write_now(file, offset + moved, more, written), NFS3_OK);
        return status;
    }
};

// RFC 1813 s3.3.6: neither bytes nor the end tells a client nothing; Linux takes it for an IO
// error.
TEST(OnReadGrowing, NothingReadIsTheEndThoughTheFileGrewMeanwhile) {
    NfsWorld w(Backend::mem);
    auto growing = std::make_shared<Growing>();
    ASSERT_TRUE(static_cast<bool>(w.server.add_export("/growing", growing)));
    nfs::FhBytes fh =
        nfs::encode_fh(w.server.handle_key(), {nfs::export_id_of("/growing"), growing->root()});
    const Handle file = w.file(Handle::of(nfs::to_fh3(fh)), "f");
    for (const std::uint32_t count : {100u, 1u << 20}) {  // where the size is asked first, too
        const std::uint64_t end = w.attr(file).size;
        const ReadReply nothing = w.read(file, end, count);
        EXPECT_EQ(nothing.status, NFS3_OK);
        EXPECT_EQ(nothing.count, 0u);
        EXPECT_TRUE(nothing.eof);
    }
    const ReadReply some = w.read(file, 0, 100);
    EXPECT_GT(some.count, 0u);
    EXPECT_FALSE(some.eof);  // there is more by now
}

TEST_P(B75, OffsetsNearTheEndOfTheRangeReadNothing) {
    const Handle file = w.file(w.root, "f", "abc");
    for (const std::uint64_t offset :
         {0x7FFFFFFFFFFFF000ull, 0xFFFFFFFFFFFFFFFFull, 0x8000000000000000ull}) {
        const ReadReply reply = w.read(file, offset, 0x1000);
        EXPECT_EQ(reply.status, NFS3_OK);
        EXPECT_EQ(reply.count, 0u);
        EXPECT_TRUE(reply.eof);
    }
}

TEST_P(OnRead, SteadyStateAllocatesNothing) {
    if (!test::kAllocCounterWorks) GTEST_SKIP() << "needs a build without sanitizers";
    const Handle file = w.file(w.root, "f", pattern(65536));
    sunrpc::Payload payload = *w.xprt->get_payload(65536);
    const READ3args args{file.fh(), 0, 65536};
    READ3res res{};
    bool done = false;
    sunrpc::Call call;
    call.proc = &nfs::nfs3_procs()[NFSPROC3_READ];
    call.proc_number = NFSPROC3_READ;
    call.args = &args;
    call.res = &res;
    call.result_room = payload.memory();
    call.user = &done;
    call.done = [](sunrpc::Call& c, Result<void> result) noexcept {
        *static_cast<bool*>(c.user) = static_cast<bool>(result);
    };
    const auto once = [&] {
        done = false;
        ASSERT_TRUE(static_cast<bool>(w.nfs->call(call)));
        for (int i = 0; i < 100 && !done; ++i)
            w.world.loop->run_once(kNsPerMs);
        ASSERT_TRUE(done);
        ASSERT_EQ(res.status, NFS3_OK);
    };
    for (int i = 0; i < 10; ++i)
        once();
    const test::AllocCounter counter;
    for (int i = 0; i < 100; ++i)
        once();
    EXPECT_EQ(counter.count(), 0u);
}

}  // namespace
}  // namespace nfsrdma::testing
