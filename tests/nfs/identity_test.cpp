#include "nfs/identity.hpp"

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <linux/capability.h>
#include <sched.h>
#include <set>
#include <sstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/loop.hpp"
#include "tests/support/needs_root.hpp"

namespace nfsrdma::nfs {
namespace {

Cred cred_of(std::uint32_t uid, std::uint32_t gid, std::uint32_t group_count = 0) {
    Cred cred;
    cred.known = true;
    cred.uid = uid;
    cred.gid = gid;
    cred.group_count = group_count;
    for (std::uint32_t i = 0; i < group_count; ++i)
        cred.groups.at(i) = uid + 100 + i;
    return cred;
}

// What the system says of this thread.
struct Told {
    std::uint32_t fsuid = 0, fsgid = 0;
    std::vector<std::uint32_t> groups;
    std::uint64_t capabilities = 0;
};
Told ask_system() {
    std::ifstream file("/proc/thread-self/status");
    Told told;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string key, skip;
        words >> key;
        if (key == "Uid:") words >> skip >> skip >> skip >> told.fsuid;
        if (key == "Gid:") words >> skip >> skip >> skip >> told.fsgid;
        if (key == "CapEff:") words >> std::hex >> told.capabilities;
        for (std::uint32_t group = 0; key == "Groups:" && words >> group;)
            told.groups.push_back(group);
    }
    return told;
}

bool has_capability(const Told& told, int capability) {
    return ((told.capabilities >> static_cast<unsigned>(capability)) & 1u) != 0;
}

bool lookup40(std::uint32_t uid, std::vector<std::uint32_t>& out) {
    for (std::uint32_t i = 0; i < 40; ++i)
        out.push_back(uid + 100 + i);
    return true;
}

// Runs in a process of its own, since it gives away what it cannot get back. True: `body` was.
bool in_child(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body() ? 0 : 1);
    int status = 0;
    return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

class IdentityTest : public testing::RootTest {
  protected:
    ~IdentityTest() override {
        if (::geteuid() == 0) Identity({}, clock).become_self();
    }
    RealClock clock;
};

TEST_F(IdentityTest, ThreadActsAsTheCallerWithAllOfItsGroups) {
    Identity identity({}, clock);
    ASSERT_TRUE(identity.switches());
    for (const std::uint32_t count : {0u, 1u, 16u}) {
        ASSERT_EQ(identity.become(cred_of(1000 + count, 50, count)), NFS3_OK);
        const Told told = ask_system();
        EXPECT_EQ(told.fsuid, 1000 + count);
        EXPECT_EQ(told.fsgid, 50u);
        ASSERT_EQ(told.groups.size(), count);
        if (count != 0) {
            EXPECT_EQ(told.groups.back(), 1000 + count + 100 + count - 1);
        }
        EXPECT_FALSE(has_capability(told, CAP_DAC_OVERRIDE));
        EXPECT_FALSE(has_capability(told, CAP_DAC_READ_SEARCH));
    }
    identity.become_self();
    const Told told = ask_system();
    EXPECT_EQ(told.fsuid, 0u);
    EXPECT_EQ(told.fsgid, 0u);
    EXPECT_TRUE(has_capability(told, CAP_DAC_OVERRIDE));
}

TEST_F(IdentityTest, FortyGroupsAreLookedUpHere) {
    IdentityOptions options;
    options.manage_gids = true;
    options.groups.lookup = lookup40;
    Identity identity(options, clock);
    const Cred cred = cred_of(1000, 50, 16);
    EXPECT_FALSE(identity.is_quick(cred));
    ASSERT_EQ(identity.become(cred), NFS3_OK);
    EXPECT_TRUE(identity.is_quick(cred));
    EXPECT_EQ(ask_system().groups.size(), 40u);
    ASSERT_EQ(identity.become(cred_of(2000, 50)), NFS3_OK);
    EXPECT_EQ(ask_system().groups.front(), 2100u);
    ASSERT_EQ(identity.become(cred), NFS3_OK);
    EXPECT_EQ(ask_system().groups.front(), 1100u);
    ASSERT_EQ(identity.become(Cred{}), NFS3_OK);
    EXPECT_TRUE(ask_system().groups.empty());
}

TEST_F(IdentityTest, CallerWhoIsNotKnownIsNobody) {
    Identity identity({}, clock);
    ASSERT_EQ(identity.become(cred_of(1000, 50, 16)), NFS3_OK);
    ASSERT_EQ(identity.become(Cred{}), NFS3_OK);
    const Told told = ask_system();
    EXPECT_EQ(told.fsuid, 65534u);
    EXPECT_EQ(told.fsgid, 65534u);
    EXPECT_TRUE(told.groups.empty());
    EXPECT_FALSE(identity.overrides(Cred{}));
    EXPECT_TRUE(identity.overrides(cred_of(0, 0)));
}

TEST_F(IdentityTest, IdThatCannotBeLeavesTheThreadItself) {
    const std::vector<std::uint32_t> own = ask_system().groups;
    Identity identity({}, clock);
    ASSERT_EQ(identity.become(cred_of(1000, 50, 3)), NFS3_OK);
    EXPECT_EQ(identity.become(cred_of(~0u, 50)), NFS3ERR_ACCES);
    EXPECT_EQ(ask_system().fsuid, 0u);
    EXPECT_EQ(identity.become(cred_of(1000, ~0u)), NFS3ERR_ACCES);
    Cred cred = cred_of(1000, 50, 2);
    cred.groups[1] = ~0u;
    EXPECT_EQ(identity.become(cred), NFS3ERR_ACCES);
    EXPECT_EQ(ask_system().groups, own);
}

TEST_F(IdentityTest, ThreadStartedByOneThatActsForACallerBeginsAnew) {
    Identity identity({}, clock);
    ASSERT_EQ(identity.become(cred_of(1000, 50, 3)), NFS3_OK);
    std::thread([&] {
        EXPECT_EQ(ask_system().fsuid, 1000u);  // what it inherited
        identity.become_self();
        EXPECT_EQ(ask_system().fsuid, 0u);
        EXPECT_TRUE(has_capability(ask_system(), CAP_DAC_OVERRIDE));
    }).join();
    EXPECT_EQ(ask_system().fsuid, 1000u);
}

TEST_F(IdentityTest, ThreadsDoNotChangeEachOther) {
    Identity identity({}, clock);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint32_t i = 0; i < 300; ++i) {
                const std::uint32_t uid = 1000 + (t * 7 + i * 3) % 11, count = (t + i) % 17;
                if (i % 5 == 4) {
                    identity.become_self();
                    if (ask_system().fsuid != 0) ++wrong;
                    continue;
                }
                if (identity.become(cred_of(uid, uid + 1, count)) != NFS3_OK) ++wrong;
                const Told told = ask_system();
                if (told.fsuid != uid || told.fsgid != uid + 1) ++wrong;
                if (told.groups.size() != count) ++wrong;
                if (count != 0 && told.groups.front() != uid + 100) ++wrong;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(ask_system().fsuid, 0u);
}

TEST_F(IdentityTest, WithoutCapabilitiesAllActAsThisProcess) {
    EXPECT_TRUE(in_child([this] {
        if (::setresgid(4321, 4321, 4321) != 0 || ::setresuid(1234, 1234, 1234) != 0) return false;
        Identity identity({}, clock);
        if (identity.switches() || identity.become(cred_of(1000, 50)) != NFS3_OK) return false;
        return ask_system().fsuid == 1234 && identity.uid_of(cred_of(1000, 50)) == 1234 &&
               identity.describe() == "all callers act as uid 1234 (no CAP_SETUID and CAP_SETGID)";
    }));
}

// A daemon with a user of its own and the capabilities it needs: the system takes none of them away
// from the caller.
TEST_F(IdentityTest, CapabilitiesOfADaemonThatIsNotRootAreNotTheCallers) {
    EXPECT_TRUE(in_child([this] {
        if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) return false;
        if (::setresgid(4321, 4321, 4321) != 0 || ::setresuid(1234, 1234, 1234) != 0) return false;
        struct __user_cap_header_struct header {};
        header.version = _LINUX_CAPABILITY_VERSION_3;
        std::array<struct __user_cap_data_struct, 2> data{};
        data[0].permitted = data[0].effective = 1u << CAP_SETUID | 1u << CAP_SETGID |
                                                1u << CAP_DAC_READ_SEARCH | 1u << CAP_DAC_OVERRIDE;
        if (::syscall(SYS_capset, &header, data.data()) != 0) return false;
        Identity identity({}, clock);
        if (!identity.switches() || identity.overrides(cred_of(0, 0))) return false;
        for (const std::uint32_t uid : {1000u, 0u, 1234u}) {
            if (identity.become(cred_of(uid, 50, 4)) != NFS3_OK) return false;
            const Told told = ask_system();
            if (told.fsuid != uid || has_capability(told, CAP_DAC_READ_SEARCH)) return false;
            if (has_capability(told, CAP_DAC_OVERRIDE)) return false;
        }
        identity.become_self();
        const Told told = ask_system();
        return told.fsuid == 1234 && has_capability(told, CAP_DAC_READ_SEARCH);
    }));
}

// A container without ids of its own: the capabilities are there, and good for nobody else.
TEST_F(IdentityTest, UserNamespaceWithoutOtherIdsActsAsThisProcess) {
    EXPECT_TRUE(in_child([this] {
        if (::unshare(CLONE_NEWUSER) != 0) return true;  // not allowed here
        std::ofstream("/proc/self/setgroups") << "deny";
        std::ofstream("/proc/self/uid_map") << "0 0 1";
        std::ofstream("/proc/self/gid_map") << "0 0 1";
        Identity identity({}, clock);
        if (identity.switches() || identity.become(cred_of(1000, 50)) != NFS3_OK) return false;
        return ask_system().fsuid == 0 &&
               identity.describe() == "all callers act as uid 0 (its user namespace has no others)";
    }));
}

TEST_F(IdentityTest, NewFilesBelongToTheCaller) {
    Identity identity({}, clock);
    std::string dir = ::testing::TempDir() + "nfsrdma-XXXXXX";
    ASSERT_NE(::mkdtemp(dir.data()), nullptr);
    ASSERT_EQ(::chmod(dir.c_str(), 01777), 0);
    ASSERT_EQ(identity.become(cred_of(1000, 50)), NFS3_OK);
    const std::string path = dir + "/f";
    const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    EXPECT_GE(fd, 0);
    ::close(fd);
    ASSERT_EQ(identity.become(cred_of(1001, 50)), NFS3_OK);
    EXPECT_EQ(::open(path.c_str(), O_RDONLY | O_CLOEXEC), -1);
    EXPECT_EQ(errno, EACCES);
    identity.become_self();
    struct stat st {};
    EXPECT_EQ(::stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, 1000u);
    EXPECT_EQ(st.st_gid, 50u);
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
}

// Of a thread that was never anybody else: what it may not become is told before.
TEST_F(IdentityTest, AThreadThatIsKeptStaysItself) {
    Identity identity({}, clock);
    std::thread([&] {
        const Told before = ask_system();
        identity.keep_thread();
        EXPECT_FALSE(identity.is_quick(cred_of(1000, 50)));
        EXPECT_FALSE(identity.is_quick(cred_of(0, 50)));
        EXPECT_FALSE(identity.is_quick(Cred{}));
        EXPECT_TRUE(identity.is_quick(cred_of(0, 0, 16)));  // groups decide nothing for root
        EXPECT_EQ(identity.become(cred_of(0, 0, 16)), NFS3_OK);
        identity.become_self();
        const Told after = ask_system();
        EXPECT_EQ(after.fsuid, before.fsuid);
        EXPECT_EQ(after.groups, before.groups);
    }).join();
    std::thread([&] {  // another is as free as ever
        EXPECT_TRUE(identity.is_quick(cred_of(1000, 50)));
        EXPECT_EQ(identity.become(cred_of(1000, 50)), NFS3_OK);
        EXPECT_EQ(ask_system().fsuid, 1000u);
    })
        .join();
}

TEST_F(IdentityTest, PersonalityIsKeptForEachCallerOfALoop) {
    LoopOptions options;
    options.backend = LoopBackend::io_uring;
    auto loop = Loop::create(options);
    if (!loop) GTEST_SKIP() << "needs io_uring: " << to_string(loop.error());
    Identity identity({}, clock);
    const std::uint16_t first = identity.personality(**loop, cred_of(1000, 50, 3));
    EXPECT_NE(first, 0);
    EXPECT_EQ(ask_system().fsuid, 0u) << "the thread is itself again";
    EXPECT_EQ(identity.personality(**loop, cred_of(1000, 50, 3)), first);
    EXPECT_NE(identity.personality(**loop, cred_of(1000, 50, 2)), first);
    EXPECT_NE(identity.personality(**loop, cred_of(1001, 50, 3)), first);
    // Root is who we are, whoever the thread acts for when the kernel gets to see the operation.
    const std::uint16_t own = identity.personality(**loop, cred_of(0, 0));
    EXPECT_NE(own, 0);
    EXPECT_EQ(identity.personality(**loop, cred_of(0, 7, 3)), own);
    // Those who come too late for one of their own get ours; what was given stays.
    std::set<std::uint16_t> given;
    for (std::uint32_t uid = 2000; uid < 7000; ++uid)
        given.insert(identity.personality(**loop, cred_of(uid, 50)));
    EXPECT_EQ(given.size(), 4096u - 3 + 1);
    EXPECT_EQ(given.count(own), 1u);
    EXPECT_EQ(identity.personality(**loop, cred_of(1000, 50, 3)), first);
    // Another loop knows nothing of these.
    auto other = Loop::create(options);
    ASSERT_TRUE(other);
    loop->reset();
    EXPECT_NE(identity.personality(**other, cred_of(1000, 50, 3)), 0);
    options.backend = LoopBackend::epoll;
    EXPECT_EQ(identity.personality(**Loop::create(options), cred_of(1000, 50, 3)), 0);
}

TEST_F(IdentityTest, LimitsHoldForEverybody) {
    EXPECT_TRUE(in_child([this] {
        if (!has_capability(ask_system(), CAP_SYS_RESOURCE)) return true;  // not in this container
        Identity::obey_limits();
        Identity identity({}, clock);
        if (!identity.switches() || has_capability(ask_system(), CAP_SYS_RESOURCE)) return false;
        if (identity.become(cred_of(1000, 50)) != NFS3_OK) return false;
        if (has_capability(ask_system(), CAP_SYS_RESOURCE)) return false;
        identity.become_self();
        return !has_capability(ask_system(), CAP_SYS_RESOURCE) &&
               has_capability(ask_system(), CAP_DAC_OVERRIDE);
    }));
}

TEST_F(IdentityTest, IsDescribed) {
    IdentityOptions options;
    EXPECT_EQ(Identity(options, clock).describe(), "each caller acts as itself");
    options.manage_gids = true;
    EXPECT_EQ(Identity(options, clock).describe(),
              "each caller acts as itself, with its groups of this machine");
    options.keep_own = true;
    EXPECT_EQ(Identity(options, clock).describe(), "all callers act as uid 0");
}

}  // namespace
}  // namespace nfsrdma::nfs
