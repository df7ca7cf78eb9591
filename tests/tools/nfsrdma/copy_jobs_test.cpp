// PutJob, GetJob and VerifyJob against servers that answer as ours does not.
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "tests/nfs/client/fake_server.hpp"
#include "tests/tools/nfsrdma/tree_test.hpp"
#include "tools/nfsrdma/get_job.hpp"
#include "tools/nfsrdma/put_job.hpp"

namespace nfsrdma::tool {
namespace {

class CopyJobsTest : public ::testing::Test {
  protected:
    CopyJobsTest() {
        EXPECT_TRUE(handle.assign("file", 4));
        FSINFO3resok info{};
        info.rtmax = info.wtmax = 65536;
        EXPECT_TRUE(client.set_sizes(info));
        fake.table.at(NFSPROC3_CREATE).handle = [](sunrpc::SvcCall& call) noexcept {
            static char name[] = "file";
            auto& obj = static_cast<CREATE3res*>(call.res)->CREATE3res_u.resok.obj;
            obj.handle_follows = TRUE;
            obj.post_op_fh3_u.handle.data = {4, name};
            call.reply();
        };
        fake.table.at(NFSPROC3_SETATTR).handle = [](sunrpc::SvcCall& call) noexcept {
            call.reply();
        };
    }
    void write_local(std::size_t size) {
        std::string data(size, '\0');
        for (std::size_t i = 0; i < size; ++i)
            data[i] = testing::file_byte(i);
        local.write("file", data);
    }
    template <class Job>
    void run(Job& job, typename Job::Task task) {
        bool finished = false;
        job.user = &finished;
        job.done = [](Job& j) noexcept { *static_cast<bool*>(j.user) = true; };
        job.start(std::move(task));
        ASSERT_TRUE(world.run_until([&] { return finished; }));
    }
    void put(bool verify = false) {
        PutJob::Task task;
        task.directory = handle;
        task.name = "file";
        task.fd.reset(::open((local / "file").c_str(), O_RDONLY | O_CLOEXEC));
        ASSERT_EQ(::fstat(task.fd.get(), &task.attributes), 0);
        task.rules.verify = verify;
        run(putting, std::move(task));
    }
    void get(std::uint64_t size, bool verify = false) {
        GetJob::Task task;
        task.file = handle;
        task.attributes.type = NF3REG;
        task.attributes.mode = 0644;
        task.attributes.size = task.attributes.used = size;
        task.directory.reset(::dup(local.fd()));
        task.name = "back";
        task.rules.verify = verify;
        run(getting, std::move(task));
    }
    std::string at_server() const { return {fake.file.begin(), fake.file.end()}; }

    testing::LocalDir local;
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, testing::DirectOptions{}};
    nfs::client::Client client{xprt, nullptr};
    Progress progress{*world.loop, false, 0};
    nfs::client::FileHandle handle;
    PutJob putting{client, 4, progress};
    GetJob getting{client, 4, progress};
};

// What was not committed is lost with the server, and sent again out of the file.
TEST_F(CopyJobsTest, AServerThatForgetsIsToldAgain) {
    write_local(1'000'000);
    fake.restart_after_write = 7;
    put(true);
    EXPECT_TRUE(putting.outcome.ok()) << to_string(putting.outcome);
    EXPECT_TRUE(putting.result.trouble.empty()) << putting.result.trouble;
    EXPECT_EQ(at_server(), local.read("file"));
    EXPECT_GE(client.counters().rewrites, 1u);  // those that were answered before
    EXPECT_EQ(progress.bytes(), 1'000'000u);
}

TEST_F(CopyJobsTest, B101_ShortReadsAndWritesAreContinued) {
    write_local(300'001);
    fake.write_most = 1000;
    fake.read_most = 777;
    put(true);
    EXPECT_TRUE(putting.result.verified);
    EXPECT_EQ(at_server(), local.read("file"));
    get(300'001, true);
    EXPECT_TRUE(getting.outcome.ok()) << to_string(getting.outcome);
    EXPECT_TRUE(getting.result.verified);
    EXPECT_EQ(local.read("back"), local.read("file"));
}

TEST_F(CopyJobsTest, B104_AFullServerEndsTheCopy) {
    write_local(300'000);
    fake.write_status = NFS3ERR_NOSPC;
    put();
    EXPECT_EQ(putting.outcome.status, NFS3ERR_NOSPC);
    EXPECT_NE(putting.remains().find("empty file is left"), std::string::npos);
}

TEST_F(CopyJobsTest, VerifyFindsOneByte) {
    write_local(200'000);
    fake.table.at(NFSPROC3_SETATTR).handle = [](sunrpc::SvcCall& call) noexcept {
        // Decays between the copy and the comparison.
        testing::FakeServer::of(call).file.at(123'456) ^= 1;
        call.reply();
    };
    put(true);
    EXPECT_FALSE(putting.result.verified);
    EXPECT_NE(putting.result.trouble.find("byte 123456 "), std::string::npos)
        << putting.result.trouble;
}

// The file is shorter, or longer, than it was when it was looked at. Its server tells no
// attributes.
TEST_F(CopyJobsTest, AFileOfAnotherSizeThanToldOf) {
    for (const std::size_t size : {0u, 1u, 65535u, 65536u, 150'000u}) {
        fake.file.assign(size, 'x');
        for (const std::uint64_t told : {0u, 65536u, 100'000u}) {
            get(told, true);
            ASSERT_TRUE(getting.outcome.ok()) << size << " " << to_string(getting.outcome);
            EXPECT_TRUE(getting.result.trouble.empty()) << size << " told " << told;
            EXPECT_EQ(local.read("back").size(), size);
        }
    }
}

TEST_F(CopyJobsTest, NothingIsLeftOfWhatDidNotCome) {
    fake.table.at(NFSPROC3_READ).handle = [](sunrpc::SvcCall& call) noexcept {
        static_cast<READ3res*>(call.res)->status = NFS3ERR_ACCES;
        call.reply();
    };
    get(1000);
    EXPECT_EQ(getting.outcome.status, NFS3ERR_ACCES);
    EXPECT_FALSE(local.has("back"));
    // What was there before is not ours to remove.
    local.write("back", "old");
    get(1000);
    EXPECT_TRUE(local.has("back"));
}

}  // namespace
}  // namespace nfsrdma::tool
