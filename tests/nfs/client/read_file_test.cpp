#include "nfs/client/read_file.hpp"

#include <vector>

#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

class FileReaderTest : public ::testing::Test {
  protected:
    FileReaderTest() { EXPECT_TRUE(handle.assign("file", 4)); }
    ~FileReaderTest() override {
        reader.reset();
        EXPECT_EQ(xprt->payloads_in_use(), 0u);
        EXPECT_EQ(xprt->slots_in_use(), 0u);
    }
    void make(std::uint32_t depth, const testing::DirectOptions& options = {}) {
        reader.reset();
        client.reset();
        xprt = std::make_unique<testing::DirectXprt>(*world.loop, fake.dispatcher, options);
        client = std::make_unique<Client>(*xprt, nullptr);
        FSINFO3resok info{};
        info.rtmax = info.wtmax = 65536;
        EXPECT_TRUE(client->set_sizes(info));
        reader = std::make_unique<FileReader>(*client, depth);
        reader->user = this;
        reader->on_data = [](FileReader& r, FileReader::Slot& slot) noexcept {
            auto& self = *static_cast<FileReaderTest*>(r.user);
            const std::uint64_t end = slot.offset() + slot.data().size();
            if (self.got.size() < end) self.got.resize(end);
            for (std::size_t i = 0; i < slot.data().size(); ++i) {
                self.got[slot.offset() + i] = std::to_integer<char>(slot.data()[i]);
            }
            self.received += slot.data().size();
            if (self.hold) {
                self.held.push_back(&slot);
            } else {
                r.consumed(slot);
            }
        };
        reader->done = [](FileReader& r) noexcept {
            ++static_cast<FileReaderTest*>(r.user)->finished;
        };
    }
    void fill(std::size_t size) {
        fake.file.resize(size);
        for (std::size_t i = 0; i < size; ++i)
            fake.file[i] = testing::file_byte(i);
    }
    Outcome read(std::uint64_t hint, std::uint64_t offset = 0, std::uint64_t length = UINT64_MAX) {
        got.clear();
        received = 0;
        finished = 0;
        FileReader::Options options;
        options.file = handle;
        options.size_hint = hint;
        options.offset = offset;
        options.length = length;
        reader->start(options);
        EXPECT_EQ(finished, 0);
        EXPECT_TRUE(world.run_until([this] { return finished != 0; }));
        return reader->outcome;
    }
    testing::DirectWorld world;
    testing::FakeServer fake;
    std::unique_ptr<testing::DirectXprt> xprt;
    std::unique_ptr<Client> client;
    std::unique_ptr<FileReader> reader;
    FileHandle handle;
    std::vector<char> got;
    std::vector<FileReader::Slot*> held;
    std::uint64_t received = 0;
    int finished = 0;
    bool hold = false;
};

TEST_F(FileReaderTest, EverySizeWithAndWithoutAHint) {
    make(8);
    for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 131072u, 1000000u}) {
        fill(size);
        for (const std::uint64_t hint :
             {std::uint64_t{0}, std::uint64_t{size}, std::uint64_t{size / 2},
              std::uint64_t{size} * 2 + 100000}) {
            ASSERT_TRUE(read(hint).ok()) << size << " " << to_string(reader->outcome);
            EXPECT_EQ(received, size);
            EXPECT_EQ(got, fake.file);
        }
    }
}

TEST_F(FileReaderTest, AKnownFileOfOneBlockIsOneRead) {
    make(8);
    fill(65536);
    ASSERT_TRUE(read(65536).ok());
    EXPECT_EQ(fake.reads, 1u);
    fill(100);
    ASSERT_TRUE(read(100).ok());
    EXPECT_EQ(fake.reads, 2u);
}

TEST_F(FileReaderTest, ManyReadsInFlight) {
    make(8);
    fill(2 << 20);
    ASSERT_TRUE(read(2 << 20).ok());
    EXPECT_EQ(xprt->counters().in_flight_max, 8u);
}

TEST_F(FileReaderTest, ShortReadsAreContinued) {
    make(4);
    fill(300000);
    for (const std::uint32_t most : {1000u, 4096u, 65535u}) {
        fake.read_most = most;
        ASSERT_TRUE(read(300000).ok());
        EXPECT_EQ(got, fake.file);
        EXPECT_EQ(received, 300000u);
    }
}

TEST_F(FileReaderTest, ServerThatNeverTellsTheEnd) {
    make(4);
    fill(100000);
    fake.tells_eof = false;
    const Outcome outcome = read(100000);
    // An empty READ without the end is not asked for again.
    ASSERT_FALSE(outcome.rpc);
    EXPECT_EQ(outcome.rpc.error().code, Errc::bad_message);
}

TEST_F(FileReaderTest, RangesEndWhereTheyAreTold) {
    make(4);
    fill(500000);
    ASSERT_TRUE(read(500000, 100, 200000).ok());
    EXPECT_EQ(received, 200000u);
    EXPECT_EQ(got.size(), 200100u);
    EXPECT_TRUE(std::equal(got.begin() + 100, got.end(), fake.file.begin() + 100));
}

TEST_F(FileReaderTest, MoreDepthThanMemoryStillFinishes) {
    testing::DirectOptions options;
    options.client_payload_runs = 2;
    make(8, options);
    fill(1 << 20);
    ASSERT_TRUE(read(1 << 20).ok());
    EXPECT_EQ(got, fake.file);
}

TEST_F(FileReaderTest, ConsumerMayHoldItsData) {
    make(3);
    fill(10 * 65536);
    hold = true;
    FileReader::Options options;
    options.file = handle;
    options.size_hint = fake.file.size();
    reader->start(options);
    world.run_idle();
    EXPECT_EQ(held.size(), 3u);  // and no more until they come back
    while (finished == 0) {
        ASSERT_FALSE(held.empty());
        FileReader::Slot* slot = held.back();
        held.pop_back();
        reader->consumed(*slot);
        world.run_idle();
    }
    EXPECT_EQ(got, fake.file);
}

// All before the window is done: a copy that is broken off can go on there.
TEST_F(FileReaderTest, NoReadIsFarBehindOneThatIsNotDone) {
    make(4);
    fill(100 * 65536);
    hold = true;
    FileReader::Options options;
    options.file = handle;
    options.size_hint = fake.file.size();
    reader->start(options);
    world.run_idle();
    FileReader::Slot* const first = held.front();
    EXPECT_EQ(first->offset(), 0u);
    std::uint64_t most = 0;
    for (bool any = true; any;) {
        any = false;
        for (std::size_t i = 0; i < held.size(); ++i) {
            if (held[i] == first) continue;
            most = std::max(most, held[i]->offset());
            FileReader::Slot* const slot = held[i];
            held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
            reader->consumed(*slot);
            any = true;
            break;
        }
        world.run_idle();
    }
    EXPECT_EQ(most, (FileReader::kWindowDepths * 4 - 1) * 65536u);
    hold = false;
    held.clear();
    reader->consumed(*first);
    ASSERT_TRUE(world.run_until([this] { return finished != 0; }));
    EXPECT_EQ(got, fake.file);
}

TEST_F(FileReaderTest, FailureOfTheConsumerWaitsForItsSlots) {
    make(3);
    fill(10 * 65536);
    hold = true;
    FileReader::Options options;
    options.file = handle;
    options.size_hint = fake.file.size();
    reader->start(options);
    world.run_idle();
    reader->fail(Outcome::failed(Error{Errc::system, 28, "write"}));
    world.run_idle();
    EXPECT_EQ(finished, 0);
    for (FileReader::Slot* slot : held)
        reader->consumed(*slot);
    world.run_idle();
    EXPECT_EQ(finished, 1);
    ASSERT_FALSE(reader->outcome.rpc);
    EXPECT_EQ(reader->outcome.rpc.error().sys, 28);
}

TEST_F(FileReaderTest, LostConnectionEndsItOnce) {
    make(4);
    fill(1 << 20);
    xprt->call_fate = [this](std::uint32_t /*xid*/) { return testing::Fate{fake.reads >= 6, 0}; };
    FileReader::Options options;
    options.file = handle;
    options.size_hint = fake.file.size();
    reader->start(options);
    ASSERT_TRUE(world.run_until([this] { return fake.reads >= 6; }));
    xprt->disconnect();
    ASSERT_TRUE(world.run_until([this] { return finished != 0; }));
    world.run_idle();
    ASSERT_FALSE(reader->outcome.rpc);
    EXPECT_EQ(reader->outcome.rpc.error().code, Errc::reconnect);
    EXPECT_EQ(finished, 1);
}

// Straight into the caller's memory: every byte where it belongs, no payload of the transport's.
TEST_F(FileReaderTest, IntoTheCallersMemoryWithoutPayloads) {
    make(4);
    for (const std::size_t size : {std::size_t{1}, std::size_t{65536}, std::size_t{500'001}}) {
        fill(size);
        std::vector<std::byte> memory(size + 10, std::byte{0xEE});
        ASSERT_TRUE(xprt->register_memory(memory));
        FileReader::Options options;
        options.file = handle;
        options.size_hint = size;
        options.into = std::span(memory).first(size);
        finished = 0;
        received = 0;
        got.clear();
        std::uint32_t payloads = 0;
        reader->start(options);
        EXPECT_TRUE(world.run_until([&] {
            payloads = std::max(payloads, xprt->payloads_in_use());
            return finished != 0;
        }));
        EXPECT_TRUE(reader->outcome.ok());
        EXPECT_EQ(payloads, 0u);
        EXPECT_EQ(reader->bytes(), size);
        for (std::size_t i = 0; i < size; ++i)
            ASSERT_EQ(std::to_integer<char>(memory[i]), testing::file_byte(i)) << i;
        EXPECT_EQ(memory[size], std::byte{0xEE});
        ASSERT_TRUE(xprt->deregister_memory(memory));
    }
}

TEST_F(FileReaderTest, IntoTheCallersMemoryReadsNoMoreThanItHolds) {
    make(4);
    fill(300'000);
    std::vector<std::byte> memory(100'000);
    ASSERT_TRUE(xprt->register_memory(memory));
    FileReader::Options options;
    options.file = handle;
    options.offset = 1000;
    options.size_hint = 300'000;
    options.into = memory;
    finished = 0;
    reader->start(options);
    EXPECT_TRUE(world.run_until([&] { return finished != 0; }));
    EXPECT_TRUE(reader->outcome.ok());
    EXPECT_EQ(reader->bytes(), 100'000u);
    for (std::size_t i = 0; i < memory.size(); ++i)
        ASSERT_EQ(std::to_integer<char>(memory[i]), testing::file_byte(1000 + i)) << i;
    // A file that is shorter than was thought.
    fill(50'000);
    options.offset = 0;
    finished = 0;
    reader->start(options);
    EXPECT_TRUE(world.run_until([&] { return finished != 0; }));
    EXPECT_TRUE(reader->outcome.ok());
    EXPECT_EQ(reader->bytes(), 50'000u);
}

}  // namespace
}  // namespace nfsrdma::nfs::client
