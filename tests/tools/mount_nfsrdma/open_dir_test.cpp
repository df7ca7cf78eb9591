#include "tools/mount_nfsrdma/open_dir.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "tests/support/direct_xprt.hpp"
#include "tests/tools/mount_nfsrdma/list_server.hpp"
#include "tools/mount_nfsrdma/mount.hpp"

namespace nfsrdma::mount {
namespace {

using testing::ListServer;
using Names = std::vector<std::string>;
using Where = OpenDir::Where;

nfs::client::FileHandle root_handle() {
    nfs::client::FileHandle handle;
    EXPECT_TRUE(handle.assign("root", 4));
    return handle;
}

class OpenDirTest : public ::testing::Test {
  protected:
    OpenDirTest() { open(); }
    ~OpenDirTest() override {
        world.run_idle();
        EXPECT_FALSE(dir->busy());
    }
    void open() {
        Node& root = mount.nodes.root();
        dir = &OpenDirs::of(root).add(
            std::make_unique<OpenDir>(mount, root, client, mount.callers.own()));
    }
    // Goes to `to`, as a job of the kernel's request does. False: the server's answer failed.
    bool go(std::uint64_t to, Where& where) {
        for (int i = 0; i < 10; ++i) {
            where = dir->seek(to);
            if (where != Where::later) return true;
            OneWaiter waiter;
            waiter.ready = [](OpenDir::Waiter& told, const nfs::client::Outcome& why) noexcept {
                static_cast<OneWaiter&>(told).outcome = why;
            };
            dir->wait(waiter);
            EXPECT_TRUE(world.run_until([&] { return waiter.outcome.has_value(); }));
            outcome = *waiter.outcome;
            if (!outcome.ok()) return false;
        }
        ADD_FAILURE() << "never comes to an end";
        return false;
    }
    // One request of the kernel, with room for `most` entries; they are added to `names`.
    bool read(std::size_t most, Names& names) {
        Where where{};
        if (!go(offset, where)) return false;
        if (where == Where::end) return false;
        for (std::size_t i = 0; i < most && dir->item() != nullptr; ++i) {
            names.emplace_back(dir->item()->name);
            offset = dir->item()->cookie;
            offsets.push_back(offset);
            dir->advance();
        }
        if (dir->wants_ahead()) dir->ask_ahead();
        return true;
    }
    Names all(std::size_t most = 3) {
        Names names;
        offset = 0;
        offsets.clear();
        while (read(most, names) && names.size() < 1000) {
        }
        return names;
    }
    std::vector<std::uint64_t> cookies() const {
        std::vector<std::uint64_t> out;
        for (const auto& question : server.asked)
            out.push_back(question.cookie);
        return out;
    }

    struct OneWaiter final : OpenDir::Waiter {
        std::optional<nfs::client::Outcome> outcome;
    };
    testing::DirectWorld world;
    ListServer server;
    testing::DirectXprt xprt{*world.loop, server.dispatcher, {}};
    nfs::client::Client client{xprt, nullptr};
    MountOptions options;
    Mount mount{options, root_handle()};
    OpenDir* dir = nullptr;
    std::uint64_t offset = 0;
    std::vector<std::uint64_t> offsets;
    nfs::client::Outcome outcome;
};

const Names kTen = {".", "..", "a", "b", "c", "d", "e", "f", "g", "h"};

TEST_F(OpenDirTest, B129EveryEntryOfAReplyIsUsed) {
    server.serve(kTen, 5);
    EXPECT_EQ(all(2), kTen);
    EXPECT_EQ(cookies(), (std::vector<std::uint64_t>{0, 5}));
}

TEST_F(OpenDirTest, KernelThatComesBackIsAnsweredFromMemory) {
    server.serve(kTen, 5);
    Names names;
    ASSERT_TRUE(read(5, names));
    // It had room for two of them.
    offset = 2;
    ASSERT_TRUE(read(9, names));
    EXPECT_EQ(names, (Names{".", "..", "a", "b", "c", "a", "b", "c"}));
    world.run_idle();
    EXPECT_EQ(cookies(), (std::vector<std::uint64_t>{0, 5}));
}

TEST_F(OpenDirTest, NextReplyIsAskedForWhileTheLastIsTaken) {
    server.serve(kTen, 4);
    Names names;
    ASSERT_TRUE(read(1, names));
    world.run_idle();
    EXPECT_EQ(cookies(), (std::vector<std::uint64_t>{0, 4}));
    ASSERT_TRUE(read(9, names));
    ASSERT_TRUE(read(1, names));
    world.run_idle();
    EXPECT_EQ(cookies(), (std::vector<std::uint64_t>{0, 4, 8}));
    EXPECT_EQ(names, (Names{".", "..", "a", "b", "c"}));
}

TEST_F(OpenDirTest, B79WhateverIsSoughtComesNext) {
    server.serve(kTen, 3);
    ASSERT_EQ(all(1), kTen);
    const std::vector<std::uint64_t> at = offsets;
    for (const std::size_t i : {8u, 0u, 4u, 5u, 1u, 7u, 2u}) {
        Names names;
        offset = at[i];
        ASSERT_TRUE(read(1, names));
        EXPECT_EQ(names, Names{kTen[i + 1]}) << i;
    }
    Names names;
    offset = at[9];
    EXPECT_FALSE(read(1, names));
}

TEST_F(OpenDirTest, PlacesOfOurDotsAreFoundWhereTheServerListsItsOwn) {
    server.serve(kTen, 5);
    for (const bool before : {true, false}) {
        Names names;
        offset = OpenDir::kDot;
        ASSERT_TRUE(read(1, names)) << before;
        offset = OpenDir::kDotDot;
        ASSERT_TRUE(read(1, names)) << before;
        EXPECT_EQ(names, (Names{"..", "a"})) << before;
        (void)all();
    }
}

TEST_F(OpenDirTest, ListingThatStartsAgainIsAskedForAnew) {
    server.serve({".", "..", "a"}, 9);
    EXPECT_EQ(all(), (Names{".", "..", "a"}));
    server.serve({".", "..", "b"}, 2);
    EXPECT_EQ(all(), (Names{".", "..", "b"}));
    server.serve({".", "..", "c"}, 2);
    EXPECT_EQ(all(), (Names{".", "..", "c"}));
}

TEST_F(OpenDirTest, WhatWasOnItsWayBeforeTheStartIsNotShownAfter) {
    xprt.options().latency_ns = kNsPerSec;
    server.serve({".", "..", "a", "b"}, 2);
    Names names;
    ASSERT_TRUE(read(2, names));
    ASSERT_TRUE(dir->busy());  // for what comes behind
    server.serve({".", "..", "c", "d"}, 2);
    EXPECT_EQ(all(), (Names{".", "..", "c", "d"}));
}

TEST_F(OpenDirTest, DotsAreMadeWhereTheServerHasNone) {
    server.serve({"a", "b", "c"}, 2);
    EXPECT_EQ(all(1), (Names{".", "..", "a", "b", "c"}));
    EXPECT_EQ(offsets[0], OpenDir::kDot);
    EXPECT_EQ(offsets[1], OpenDir::kDotDot);
    const std::vector<std::uint64_t> at = offsets;
    for (const std::size_t i : {1u, 0u, 3u, 2u}) {
        Names names;
        offset = at[i];
        ASSERT_TRUE(read(1, names));
        EXPECT_EQ(names, (Names{std::vector<std::string>{"..", "a", "b", "c"}[i]}));
    }
}

TEST_F(OpenDirTest, DotsInTheWrongPlaceAreShownOnce) {
    server.serve({"a", ".", "b", "..", "c"}, 2);
    EXPECT_EQ(all(2), (Names{".", "..", "a", "b", "c"}));
}

TEST_F(OpenDirTest, EmptyDirectoryHasItsDots) {
    server.serve({}, 2);
    EXPECT_EQ(all(), (Names{".", ".."}));
}

TEST_F(OpenDirTest, WhatIsNoNameIsLeftOut) {
    server.serve({".", "..", "a/b", "", "x", "../y"}, 3);
    EXPECT_EQ(all(), (Names{".", "..", "x"}));
    // A reply that has nothing else leads to the next.
    server.serve({".", "..", "/", "", "x"}, 2);
    EXPECT_EQ(all(), (Names{".", "..", "x"}));
}

TEST_F(OpenDirTest, B77NeitherEntriesNorAnEndIsAnErrorAfterOneMoreTry) {
    server.page = [](const ListServer::Question&) { return ListServer::Page{}; };
    Names names;
    EXPECT_FALSE(read(1, names));
    EXPECT_EQ(outcome.rpc.error().code, Errc::bad_message);
    EXPECT_EQ(server.asked.size(), 2u);
}

TEST_F(OpenDirTest, ListingInCirclesIsAnError) {
    server.page = [](const ListServer::Question& question) {
        ListServer::Page page;
        page.entries.push_back({"n" + std::to_string(question.cookie), question.cookie % 9 + 1});
        return page;
    };
    const Names names = all();
    EXPECT_LT(names.size(), 60u);
    EXPECT_FALSE(outcome.rpc);
    EXPECT_EQ(outcome.rpc.error().code, Errc::bad_message);
}

TEST_F(OpenDirTest, SameCookieAgainIsAnError) {
    server.page = [](const ListServer::Question&) {
        return ListServer::Page{{{"a", 5}}, false, NFS3_OK};
    };
    const Names names = all();
    EXPECT_LT(names.size(), 9u);
    EXPECT_FALSE(outcome.rpc);
}

TEST_F(OpenDirTest, B82ForgottenCookieIsFoundByItsName) {
    server.serve(kTen, 4);
    Names names;
    ASSERT_TRUE(read(2, names));
    world.run_idle();
    ASSERT_TRUE(read(2, names));
    // All cookies are other ones from now on.
    server.page = [](const ListServer::Question& question) {
        ListServer::Page page;
        if (question.cookie != 0 && question.cookie < 1000) page.status = NFS3ERR_BAD_COOKIE;
        const std::size_t from = question.cookie == 0 ? 0 : question.cookie - 1000;
        for (std::size_t i = from; i < kTen.size() && page.entries.size() < 3; ++i)
            page.entries.push_back({kTen[i], 1000 + i + 1});
        page.eof = from + 3 >= kTen.size();
        return page;
    };
    server.verifier = 8;
    world.run_idle();
    while (read(3, names) && names.size() < 100) {
    }
    EXPECT_EQ(names, kTen);
}

TEST_F(OpenDirTest, ForgottenCookieOfANameThatIsGoneIsAnError) {
    server.serve(kTen, 4);
    Names names;
    ASSERT_TRUE(read(4, names));
    world.run_idle();
    server.page = [](const ListServer::Question& question) {
        if (question.cookie != 0) return ListServer::Page{{}, false, NFS3ERR_BAD_COOKIE};
        return ListServer::Page{{{".", 100}, {"..", 101}, {"z", 102}}, true, NFS3_OK};
    };
    ASSERT_TRUE(read(9, names));  // was there already
    EXPECT_FALSE(read(9, names));
    EXPECT_TRUE(outcome.rpc);
    EXPECT_EQ(outcome.status, NFS3ERR_BAD_COOKIE);
}

TEST_F(OpenDirTest, VerifierOfTheLastReplyGoesWithItsCookie) {
    server.serve(kTen, 4);
    EXPECT_EQ(all(), kTen);
    ASSERT_EQ(server.asked.size(), 3u);
    EXPECT_EQ(server.asked[0].verifier, 0);
    EXPECT_EQ(server.asked[1].verifier, 7);
    EXPECT_EQ(server.asked[2].verifier, 7);
}

TEST_F(OpenDirTest, ServerWithoutReaddirplusIsAskedOnce) {
    server.serve(kTen, 4);
    const auto honest = server.page;
    server.page = [honest](const ListServer::Question& question) {
        return question.plus ? ListServer::Page{{}, false, NFS3ERR_NOTSUPP} : honest(question);
    };
    EXPECT_EQ(all(), kTen);
    EXPECT_FALSE(mount.limits.readdirplus);
    open();
    server.asked.clear();
    EXPECT_EQ(all(), kTen);
    for (const auto& question : server.asked)
        EXPECT_FALSE(question.plus);
}

TEST_F(OpenDirTest, FailureIsToldOnceAndThenAskedAgain) {
    server.serve(kTen, 4);
    const auto honest = server.page;
    server.page = [](const ListServer::Question&) {
        return ListServer::Page{{}, false, NFS3ERR_ACCES};
    };
    Names names;
    EXPECT_FALSE(read(1, names));
    EXPECT_EQ(outcome.status, NFS3ERR_ACCES);
    server.page = honest;
    EXPECT_EQ(all(), kTen);
}

TEST_F(OpenDirTest, FailureOfWhatNobodyWaitedForIsToldToNobody) {
    server.serve(kTen, 5);
    const auto honest = server.page;
    server.page = [&](const ListServer::Question& question) {
        return question.cookie == 0 ? honest(question) : ListServer::Page{{}, false, NFS3ERR_IO};
    };
    Names names;
    ASSERT_TRUE(read(2, names));
    world.run_idle();
    server.page = honest;
    while (read(2, names) && names.size() < 100) {
    }
    EXPECT_EQ(names, kTen);
}

TEST_F(OpenDirTest, WhoGaveUpLeavesTheAnswerForTheNext) {
    xprt.options().latency_ns = kNsPerSec;
    server.serve(kTen, 5);
    ASSERT_EQ(dir->seek(0), Where::later);
    OneWaiter waiter;
    waiter.ready = [](OpenDir::Waiter& told, const nfs::client::Outcome& why) noexcept {
        static_cast<OneWaiter&>(told).outcome = why;
    };
    dir->wait(waiter);
    dir->stop_waiting(waiter);
    EXPECT_EQ(all(), kTen);
    EXPECT_FALSE(waiter.outcome);
    EXPECT_EQ(cookies(), (std::vector<std::uint64_t>{0, 5}));
}

TEST_F(OpenDirTest, ClosedWhileBusyIsToldWhenItIsNot) {
    xprt.options().latency_ns = kNsPerSec;
    server.serve(kTen, 5);
    Names names;
    ASSERT_TRUE(read(1, names));
    ASSERT_TRUE(dir->busy());
    std::unique_ptr<OpenDir> closed = OpenDirs::of(mount.nodes.root()).remove(*dir);
    OneWaiter waiter;
    waiter.ready = [](OpenDir::Waiter& told, const nfs::client::Outcome& why) noexcept {
        static_cast<OneWaiter&>(told).outcome = why;
    };
    closed->when_idle(waiter);
    EXPECT_TRUE(world.run_until([&] { return waiter.outcome.has_value(); }));
    EXPECT_FALSE(closed->busy());
    open();
}

TEST_F(OpenDirTest, BelievesWhatIsYoungAndUnchanged) {
    server.serve(kTen, 5);
    Where where{};
    ASSERT_TRUE(go(0, where));
    EXPECT_EQ(dir->belief(), OpenDir::Belief::all);
    OpenDirs::of(mount.nodes.root()).drop_ahead();  // another has changed it
    EXPECT_EQ(dir->belief(), OpenDir::Belief::briefly);
    mount.nodes.root().attributes.begin_change();
    EXPECT_EQ(dir->belief(), OpenDir::Belief::known_names);
    mount.nodes.root().attributes.end_change(mount.next_order());
    EXPECT_EQ(dir->belief(), OpenDir::Belief::known_names);
    Names names;
    ASSERT_TRUE(read(9, names));
    ASSERT_TRUE(go(0, where));
    EXPECT_EQ(dir->belief(), OpenDir::Belief::all);
}

TEST_F(OpenDirTest, EntriesComeWithWhatTheServerToldOfThem) {
    server.serve({".", "..", "a"}, 5);
    Where where{};
    ASSERT_TRUE(go(2, where));
    ASSERT_NE(dir->item(), nullptr);
    ASSERT_NE(dir->item()->attributes, nullptr);
    EXPECT_EQ(nfs::client::raw_value(dir->item()->attributes->type), NF3REG);
    ASSERT_NE(dir->item()->handle, nullptr);
    server.tells_nodes = false;
    ASSERT_TRUE(go(1, where));
    EXPECT_EQ(dir->item()->attributes, nullptr);
    EXPECT_EQ(dir->item()->handle, nullptr);
}

TEST_F(OpenDirTest, NordirplusAsksForNamesAlone) {
    MountOptions plain;
    plain.rdirplus = false;
    Mount other(plain, root_handle());
    Node& root = other.nodes.root();
    OpenDir* const before = std::exchange(dir, &OpenDirs::of(root).add(std::make_unique<OpenDir>(
                                                   other, root, client, other.callers.own())));
    server.serve(kTen, 4);
    EXPECT_EQ(all(), kTen);
    for (const auto& question : server.asked)
        EXPECT_FALSE(question.plus);
    dir = before;
}

}  // namespace
}  // namespace nfsrdma::mount
