#include "nfs/server/server.hpp"

#include <atomic>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "nfs/vfs_mem.hpp"
#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::nfs {
namespace {

TEST(Server, SameNameTwiceIsRefused) {
    Server server;
    EXPECT_TRUE(static_cast<bool>(server.add_export("/a", std::make_unique<VfsMem>())));
    EXPECT_FALSE(static_cast<bool>(server.add_export("a/", std::make_unique<VfsMem>())));
    EXPECT_FALSE(static_cast<bool>(server.add_export("", std::make_unique<VfsMem>())));
    EXPECT_EQ(server.exports().size(), 1u);
}

TEST(Server, ExportIsFoundByItsId) {
    Server server;
    ASSERT_TRUE(static_cast<bool>(server.add_export("/a", std::make_unique<VfsMem>())));
    EXPECT_EQ(server.find_export(export_id_of("/a")), server.exports().front());
    EXPECT_EQ(server.find_export(1), nullptr);
}

TEST(B90, VerifierDiffersAtEveryStart) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 100; ++i)
        seen.insert(Server().write_verifier());
    EXPECT_EQ(seen.size(), 100u);
}

TEST(Server, MountsAreBounded) {
    Server server;
    for (std::size_t i = 0; i < 2 * Server::kMountsMax; ++i) {
        server.note_mount("h" + std::to_string(i), "/a");
    }
    EXPECT_EQ(server.mounts().size(), Server::kMountsMax);
}

std::vector<ExportParts> parts_of(std::initializer_list<const char*> names) {
    std::vector<ExportParts> out;
    for (const char* name : names)
        out.push_back({name, std::make_shared<VfsMem>(), ExportRules::open(), {}});
    return out;
}

TEST(Server, ReloadIsWholeOrNothing) {
    Server server;
    ASSERT_TRUE(static_cast<bool>(server.set_exports(parts_of({"/a", "/b"}))));
    EXPECT_FALSE(static_cast<bool>(server.set_exports(parts_of({"/c", "/c"}))));
    EXPECT_FALSE(static_cast<bool>(server.set_exports(parts_of({"/c", ""}))));
    ASSERT_EQ(server.exports().size(), 2u);
    EXPECT_EQ(server.exports()[1]->name, "/b");
    ASSERT_TRUE(static_cast<bool>(server.set_exports({})));
    EXPECT_TRUE(server.exports().empty());
    EXPECT_EQ(server.find_export(export_id_of("/a")), nullptr);
}

TEST(Server, HandlesHangOnTheFsidWhereThereIsOne) {
    Server server;
    std::vector<ExportParts> parts = parts_of({"/a", "/b"});
    parts[0].fsid = "7";
    parts[1].fsid = "8";
    ASSERT_TRUE(static_cast<bool>(server.set_exports(std::move(parts))));
    const std::uint32_t id = server.exports()[0]->id;
    EXPECT_NE(id, export_id_of("/a"));
    parts = parts_of({"/another"});
    parts[0].fsid = "7";
    ASSERT_TRUE(static_cast<bool>(server.set_exports(std::move(parts))));
    EXPECT_EQ(server.exports()[0]->id, id);
    parts = parts_of({"/a", "/b"});
    parts[0].fsid = parts[1].fsid = "7";
    EXPECT_FALSE(static_cast<bool>(server.set_exports(std::move(parts))));
    parts = parts_of({"/a"});
    parts[0].fsid = "none of these";
    EXPECT_FALSE(static_cast<bool>(server.set_exports(std::move(parts))));
}

TEST(Server, WhoHoldsAnExportKeepsItsBackend) {
    Server server;
    ASSERT_TRUE(static_cast<bool>(server.set_exports(parts_of({"/a"}))));
    std::shared_ptr<const Export> held = server.find_export(export_id_of("/a"));
    const std::weak_ptr<Vfs> vfs = held->vfs;
    ASSERT_TRUE(static_cast<bool>(server.set_exports({})));
    EXPECT_FALSE(vfs.expired());
    held.reset();
    EXPECT_TRUE(vfs.expired());
}

// Threads call while another reloads: what they find is whole, now and then stale.
TEST(Server, ReloadWhileOthersFind) {
    Server server;
    ASSERT_TRUE(static_cast<bool>(server.set_exports(parts_of({"/a", "/b"}))));
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> found{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            while (!over) {
                const auto entry = server.find_export(export_id_of("/a"));
                if (entry == nullptr) continue;
                Attr attr;
                if (entry->vfs->getattr({}, entry->vfs->root(), attr) == NFS3_OK) ++found;
            }
        });
    }
    for (int i = 0; i < 300 || found == 0; ++i) {
        const bool with = i % 3 != 0;
        ASSERT_TRUE(static_cast<bool>(
            server.set_exports(with ? parts_of({"/a", "/c"}) : parts_of({"/b"}))));
    }
    over = true;
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace nfsrdma::nfs

namespace nfsrdma::testing {
namespace {

// A call that waits (for memory) when the exports are taken away.
class ReloadUnderWay : public NfsTest {
  protected:
    struct Later : Timer {
        explicit Later(ReloadUnderWay& t) noexcept
            : Timer([](Timer& timer) noexcept { static_cast<Later&>(timer).test.reload(); }),
              test(t) {}
        ReloadUnderWay& test;
    };
    void reload() noexcept {
        EXPECT_TRUE(static_cast<bool>(w.server.set_exports({})));
        reloaded = true;
        w.xprt->server().set_dry(false);
    }
    bool reloaded = false;
};
NR_ON_BACKENDS(ReloadUnderWay);

TEST_P(ReloadUnderWay, ReadInFlightIsFinishedAndThenTheHandleIsStale) {
    const Handle file = w.file(w.root, "f", "content");
    const std::weak_ptr<nfs::Vfs> vfs = w.server.exports().front()->vfs;
    w.xprt->server().set_dry(true);
    Later later(*this);
    w.world.loop->arm(later, w.world.loop->now_ns() + kNsPerMs);
    const ReadReply read = w.read(file, 0, 100);
    EXPECT_TRUE(reloaded);
    EXPECT_EQ(read.status, NFS3_OK);
    EXPECT_EQ(read.data, "content");
    EXPECT_TRUE(vfs.expired());  // the last who held it was that call
    EXPECT_EQ(w.getattr(file)->status, NFS3ERR_STALE);
    EXPECT_EQ(w.write(file, 0, "x")->status, NFS3ERR_STALE);
    EXPECT_EQ(w.lookup(w.root, "f")->status, NFS3ERR_STALE);
}

TEST_P(ReloadUnderWay, HandlesOfAnExportThatStaysStayGood) {
    const Handle file = w.file(w.root, "f", "content");
    const nfs::ExportList before = w.server.exports();
    std::vector<nfs::ExportParts> parts;
    parts.push_back({"/first", std::make_shared<nfs::VfsMem>(), nfs::ExportRules::open(), {}});
    parts.push_back({"/export", before.front()->vfs, nfs::ExportRules::open(), {}});
    ASSERT_TRUE(static_cast<bool>(w.server.set_exports(std::move(parts))));
    EXPECT_EQ(w.read(file, 0, 100).data, "content");
}

}  // namespace
}  // namespace nfsrdma::testing
