#include "pools/link.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "tests/verbs/softroce/cm_world.hpp"

// Two Links in virtual time, and peers that break the rules.
namespace nfsrdma::pools {
namespace {

namespace soft = verbs::softroce;
using soft::test::kHostA;
using soft::test::kHostB;
using soft::test::run_for;
using soft::test::run_until;
using soft::test::SimWorld;

constexpr std::uint16_t kPort = 4444;

// What one end was told.
struct Side final : LinkHandler {
    void on_connected(Link&) noexcept override { ++connected; }
    void on_message(Link& from, std::span<const std::byte> message,
                    Exposure* exposure) noexcept override {
        inbox.emplace_back(message.begin(), message.end());
        if (exposure != nullptr) freed.push_back(exposure);
        if (echo) say(from, message);
    }
    void on_message_room(Link&) noexcept override { ++room; }
    void on_end(Link& from, const Error& error) noexcept override {
        ++ended;
        why = error;
        key.reset();
        pull.reset();
        EXPECT_TRUE(from.io().full());
        EXPECT_FALSE(from.connected());
    }
    static void say(Link& to, std::span<const std::byte> text) {
        auto message = to.message(static_cast<std::uint32_t>(text.size()));
        ASSERT_TRUE(message) << to_string(message.error());
        std::copy(text.begin(), text.end(), (*message)->bytes().begin());
        to.send(**message);
    }
    int connected = 0, ended = 0, room = 0;
    bool echo = false;
    Error why{};
    std::vector<std::vector<std::byte>> inbox;
    std::vector<Exposure*> freed;
    Lease<Exposure> key;
    Lease<Transfer> pull;
    std::unique_ptr<Link> link;
};

struct Acceptor final : verbs::ListenHandler {
    Acceptor(verbs::Device& d, Side& s) : device(d), side(s) {
        listener = std::move(*device.listen(kHostB.with_port(kPort), *this));
    }
    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest& request) noexcept override {
        if (refuse) return;
        auto made = Link::accept(device, std::move(id), request, options, side);
        ASSERT_TRUE(made) << to_string(made.error());
        side.link = *std::move(made);
    }
    verbs::Device& device;
    Side& side;
    LinkOptions options;
    bool refuse = false;
    std::unique_ptr<verbs::Listener> listener;
};

class LinkTest : public ::testing::Test {
  protected:
    LinkTest() : a_(world_.make_device(kHostA)), b_(world_.make_device(kHostB)) {
        options_.message_bytes = 100;
        options_.messages = 4;
        options_.memory_bytes = 1 << 20;
        options_.io.keys = 4;
        options_.io.pages_per_key = 40;
        options_.io.transfers = 4;
    }
    ~LinkTest() override {
        for (Side* side : {&active_, &passive_}) {
            if (side->link == nullptr) continue;
            side->link->close();
            EXPECT_TRUE(until([&] { return side->link->over(); }));
            EXPECT_EQ(side->ended, 1);
            side->link.reset();
        }
    }
    void begin() {
        acceptor_ = std::make_unique<Acceptor>(*b_, passive_);
        acceptor_->options = options_;
        connect();
    }
    void connect() {
        auto made = Link::connect(*a_, kHostB.with_port(kPort), options_, active_);
        ASSERT_TRUE(made) << to_string(made.error());
        active_.link = *std::move(made);
    }
    void begin_connected() {
        begin();
        ASSERT_TRUE(until([&] { return active_.connected > 0 && passive_.connected > 0; }));
    }
    template <class F>
    bool until(F finished) {
        return run_until(world_.loop(), std::move(finished), 60 * kNsPerSec);
    }
    static std::vector<std::byte> text(const std::string& words) {
        return soft::test::bytes_of(words);
    }
    // Exposes `memory` of the active end to be read or written, and says so.
    RemoteRun expose(std::span<std::byte> memory, bool to_write) {
        auto message = active_.link->message(10);
        EXPECT_TRUE(message);
        auto key = to_write ? active_.link->io().expose_write({&memory, 1}, (*message)->chain())
                            : active_.link->io().expose_read({&memory, 1}, (*message)->chain());
        EXPECT_TRUE(key) << to_string(key.error());
        active_.key = *std::move(key);
        active_.link->send(**message);
        EXPECT_TRUE(until([&] { return !passive_.inbox.empty(); }));
        return active_.key->runs()[0];
    }

    SimWorld world_;
    std::unique_ptr<soft::SoftDevice> a_, b_;
    LinkOptions options_;
    Side active_, passive_;
    std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(LinkTest, MessagesGoBothWaysInOrder) {
    begin_connected();
    passive_.echo = true;
    for (int round = 0; round < 10; ++round) {
        active_.inbox.clear();
        for (const char* word : {"one", "two", ""})
            Side::say(*active_.link, text(word));
        ASSERT_TRUE(until([&] { return active_.inbox.size() == 3; }));
        EXPECT_EQ(active_.inbox[0], text("one"));
        EXPECT_EQ(active_.inbox[1], text("two"));
        EXPECT_TRUE(active_.inbox[2].empty());
    }
    EXPECT_EQ(active_.link->counters().sent, 30u);
    EXPECT_EQ(active_.link->counters().received, 30u);
    EXPECT_EQ(active_.connected, 1);
    EXPECT_EQ(passive_.connected, 1);
}

TEST_F(LinkTest, MessagesToMessagesNoProgressAndTheRoomIsTold) {
    begin_connected();
    EXPECT_EQ(active_.link->message(101).error().code, Errc::too_big);
    for (int i = 0; i < 3; ++i)
        Side::say(*active_.link, text("x"));
    auto last = active_.link->message(1);
    ASSERT_TRUE(last);
    EXPECT_EQ(active_.link->message(1).error().code, Errc::again);
    EXPECT_EQ(active_.room, 0);
    active_.link->drop(**last);
    EXPECT_EQ(active_.room, 1);
    ASSERT_TRUE(until([&] { return passive_.inbox.size() == 3; }));
    EXPECT_EQ(active_.room, 1);  // nobody was refused since
}

TEST_F(LinkTest, MemoryIsPulledAndTheAnswerFreesItsKey) {
    begin_connected();
    std::vector<std::byte> memory(100'001);
    for (std::size_t i = 0; i < memory.size(); ++i)
        memory[i] = static_cast<std::byte>(i * 7);
    ASSERT_TRUE(active_.link->io().register_memory(memory));
    const RemoteRun run = expose(memory, false);
    EXPECT_EQ(run.length, memory.size());
    const std::span<std::byte> sink = *passive_.link->arena().carve(memory.size());
    passive_.pull = *passive_.link->io().pull({&run, 1}, {&sink, 1});
    bool pulled = false;
    passive_.pull->user = &pulled;
    passive_.pull->done = [](Transfer& transfer, bool ok) noexcept {
        *static_cast<bool*>(transfer.user) = ok;
    };
    passive_.link->io().post_pull(*passive_.pull);
    ASSERT_TRUE(until([&] { return pulled; }));
    EXPECT_TRUE(std::equal(sink.begin(), sink.end(), memory.begin()));
    passive_.pull.reset();
    auto answer = passive_.link->message(5);
    ASSERT_TRUE(answer);
    (*answer)->invalidate(run.handle);
    passive_.link->send(**answer);
    ASSERT_TRUE(until([&] { return !active_.inbox.empty(); }));
    EXPECT_EQ(active_.freed, std::vector<Exposure*>{active_.key.get()});
    EXPECT_TRUE(active_.key->dead());
    active_.key.reset();
    EXPECT_TRUE(active_.link->io().deregister_memory(memory));
    EXPECT_EQ(passive_.link->counters().invalidating, 1u);
    EXPECT_EQ(active_.link->io().counters().binds, 1u);
    EXPECT_EQ(active_.link->io().counters().local_invalidations, 0u);
}

TEST_F(LinkTest, PushIsThereBeforeTheMessageBehindIt) {
    begin_connected();
    const std::span<std::byte> memory = *active_.link->arena().carve(50'000);
    const RemoteRun run = expose(memory, true);
    const std::span<std::byte> source = *passive_.link->arena().carve(50'000);
    std::fill(source.begin(), source.end(), std::byte{0x5A});
    auto answer = passive_.link->message(5);
    ASSERT_TRUE(answer);
    (*answer)->follow(*passive_.link->io().push({&run, 1}, {&source, 1}));
    passive_.link->send(**answer);
    ASSERT_TRUE(until([&] { return !active_.inbox.empty(); }));
    EXPECT_TRUE(std::equal(memory.begin(), memory.end(), source.begin()));
    // The peer left the key: it is fenced.
    EXPECT_FALSE(active_.key->dead());
    bool fenced = false;
    active_.key->user = &fenced;
    active_.link->io().fence(*active_.key, [](Exposure& exposure, bool ok) noexcept {
        *static_cast<bool*>(exposure.user) = ok;
    });
    ASSERT_TRUE(until([&] { return fenced; }));
    active_.key.reset();
    EXPECT_TRUE(active_.link->io().full());
    EXPECT_TRUE(until([&] { return passive_.link->io().full(); }));
}

TEST_F(LinkTest, CloseIsToldToBothOnceAndKeysGoHome) {
    begin_connected();
    const std::span<std::byte> memory = *active_.link->arena().carve(4096);
    (void)expose(memory, true);
    active_.link->close();
    EXPECT_EQ(active_.ended, 0);  // never from inside
    active_.link->close();
    EXPECT_EQ(active_.link->message(1).error().code, Errc::reconnect);
    ASSERT_TRUE(until([&] { return active_.ended > 0 && passive_.ended > 0; }));
    EXPECT_EQ(active_.why.code, Errc::closed);
    EXPECT_EQ(passive_.why.code, Errc::reconnect);
}

TEST_F(LinkTest, MessagesThatAreUnderWayComeHomeWithTheEnd) {
    begin_connected();
    passive_.link->close();
    for (int i = 0; i < 4; ++i)
        Side::say(*active_.link, text("x"));
    ASSERT_TRUE(until([&] { return active_.ended > 0; }));
    EXPECT_EQ(active_.room, 0);
    active_.link.reset();  // asserts that nothing is left
}

TEST_F(LinkTest, RefusedUnansweredAndNobodyThere) {
    connect();
    ASSERT_TRUE(until([&] { return active_.ended > 0; }));
    EXPECT_EQ(active_.why.code, Errc::refused);
    EXPECT_NE(std::string(active_.why.what).find("nobody listens"), std::string::npos);
    EXPECT_EQ(active_.connected, 0);
    active_.link.reset();
    active_.ended = 0;
    begin();
    acceptor_->refuse = true;
    ASSERT_TRUE(until([&] { return active_.ended > 0; }));
    EXPECT_EQ(active_.why.code, Errc::refused);
    EXPECT_EQ(std::string(active_.why.what).find("nobody listens"), std::string::npos);
    active_.link.reset();
    active_.ended = 0;
    options_.connect_timeout_ns = kNsPerSec;
    auto made = Link::connect(*a_, SockAddr::v4(0x0A000063, kPort), options_, active_);
    ASSERT_TRUE(made);
    active_.link = *std::move(made);
    ASSERT_TRUE(until([&] { return active_.ended > 0; }));
    EXPECT_EQ(active_.why.code, Errc::timed_out);
}

TEST_F(LinkTest, ALinkWithoutMessagesIsRefused) {
    options_.messages = 0;
    EXPECT_EQ(Link::connect(*a_, kHostB.with_port(kPort), options_, active_).error().code,
              Errc::invalid_argument);
}

// The peer frees a key that is none: the device, or the Link, ends it.
TEST_F(LinkTest, InvalidationOfNoKeyOfOursEndsIt) {
    begin_connected();
    auto message = passive_.link->message(5);
    ASSERT_TRUE(message);
    (*message)->invalidate(0x12345678);
    passive_.link->send(**message);
    ASSERT_TRUE(until([&] { return active_.ended > 0 && passive_.ended > 0; }));
    EXPECT_TRUE(active_.inbox.empty());
}

TEST_F(LinkTest, HandlerMayDestroyItWhenItEnds) {
    struct Suicidal final : LinkHandler {
        void on_connected(Link& l) noexcept override { l.close(); }
        void on_message(Link&, std::span<const std::byte>, Exposure*) noexcept override {}
        void on_end(Link&, const Error&) noexcept override {
            link.reset();
            over = true;
        }
        std::unique_ptr<Link> link;
        bool over = false;
    } handler;
    acceptor_ = std::make_unique<Acceptor>(*b_, passive_);
    acceptor_->options = options_;
    handler.link = *Link::connect(*a_, kHostB.with_port(kPort), options_, handler);
    ASSERT_TRUE(until([&] { return handler.over; }));
    EXPECT_EQ(handler.link, nullptr);
}

}  // namespace
}  // namespace nfsrdma::pools
