#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <thread>

#include "nfs/identity.hpp"
#include "nfs/vfs_posix.hpp"
#include "tests/nfs/nfs_world.hpp"
#include "tests/support/needs_root.hpp"

// The posix backend for three users at once: of no, 16 and 40 groups.
namespace nfsrdma::nfs {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kAnn = 61001, kBob = 61002, kCleo = 61003;
constexpr std::uint32_t kGroups = 62000;  // Bob's are 62000..62015, Cleo's 62100..62139

Cred ann() {
    Cred cred;
    cred.known = true;
    cred.uid = cred.gid = kAnn;
    return cred;
}
Cred bob() {
    Cred cred;
    cred.known = true;
    cred.uid = cred.gid = kBob;
    cred.group_count = 16;
    for (std::uint32_t i = 0; i < 16; ++i)
        cred.groups.at(i) = kGroups + i;
    return cred;
}
// What AUTH_SYS had room for; the rest is looked up.
Cred cleo() {
    Cred cred;
    cred.known = true;
    cred.uid = cred.gid = kCleo;
    cred.group_count = 16;
    for (std::uint32_t i = 0; i < 16; ++i)
        cred.groups.at(i) = kGroups + 100 + i;
    return cred;
}
bool lookup(std::uint32_t uid, std::vector<std::uint32_t>& out) {
    const std::uint32_t count = uid == kBob ? 16 : uid == kCleo ? 40 : 0;
    for (std::uint32_t i = 0; i < count; ++i)
        out.push_back(kGroups + (uid == kCleo ? 100 : 0) + i);
    return count != 0;
}

// `param`: whether groups are looked up at the server.
class VfsPosixAs : public ::testing::TestWithParam<bool> {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "needs root: acting as other users";
        ::umask(0);
        ASSERT_EQ(::chmod(dir.path().c_str(), 01777), 0);
        IdentityOptions options;
        options.manage_gids = GetParam();
        options.groups.lookup = lookup;
        identity = std::make_unique<Identity>(options, clock);
        VfsPosixOptions posix;
        posix.identity = identity.get();
        auto made = VfsPosix::create(dir.path(), posix);
        ASSERT_TRUE(static_cast<bool>(made));
        vfs = *std::move(made);
    }
    void TearDown() override {
        if (identity != nullptr) identity->become_self();
        ::umask(old_umask_);
    }

    Node create(const Cred& cred, NodeId in, const std::string& name, std::uint32_t mode) {
        CreateHow how;
        how.attr.mode = mode;
        Node node;
        Wcc wcc;
        EXPECT_EQ(vfs->create(cred, {in, name}, how, node, wcc), NFS3_OK) << name;
        return node;
    }
    Node mkdir(const Cred& cred, const std::string& name, std::uint32_t mode) {
        SetAttr set;
        set.mode = mode;
        Node node;
        Wcc wcc;
        EXPECT_EQ(vfs->mkdir(cred, {vfs->root(), name}, set, node, wcc), NFS3_OK) << name;
        return node;
    }
    nfsstat3 open(const Cred& cred, NodeId node, IoUse use) {
        IoFile io;
        const nfsstat3 status = vfs->open_io(cred, node, use, io);
        if (status == NFS3_OK) vfs->close_io(io);
        return status;
    }
    nfsstat3 lookup_as(const Cred& cred, NodeId in, const std::string& name) {
        Node node;
        return vfs->lookup(cred, {in, name}, node);
    }
    nfsstat3 make_in(const Cred& cred, NodeId in, const std::string& name) {
        Node node;
        Wcc wcc;
        return vfs->create(cred, {in, name}, {}, node, wcc);
    }
    // As the local administrator.
    void give(const std::string& name, std::uint32_t uid, std::uint32_t gid, std::uint32_t mode) {
        identity->become_self();
        const std::string path = dir.path() + "/" + name;
        ASSERT_EQ(::chown(path.c_str(), uid, gid), 0);
        ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    }
    std::uint32_t mode_of(const std::string& name) {
        struct stat st {};
        EXPECT_EQ(::stat((dir.path() + "/" + name).c_str(), &st), 0);
        return st.st_mode & 07777u;
    }

    const std::uint32_t old_umask_ = [] {
        const mode_t old = ::umask(0);
        ::umask(old);
        return old;
    }();
    RealClock clock;
    testing::TempDir dir;
    std::unique_ptr<Identity> identity;
    std::unique_ptr<VfsPosix> vfs;
};
INSTANTIATE_TEST_SUITE_P(Groups, VfsPosixAs, ::testing::Bool(), [](const auto& param_info) {
    return std::string(param_info.param ? "OfTheServer" : "OfTheCall");
});

TEST_P(VfsPosixAs, NewObjectsBelongToTheirCaller) {
    const NodeId root = vfs->root();
    for (const Cred& cred : {ann(), bob(), cleo()}) {
        const std::string n = std::to_string(cred.uid);
        Node node = create(cred, root, "f" + n, 0640);
        EXPECT_EQ(node.attr.uid, cred.uid);
        EXPECT_EQ(node.attr.gid, cred.gid);
        EXPECT_EQ(node.attr.mode, 0640u);
        node = mkdir(cred, "d" + n, 0750);
        EXPECT_EQ(node.attr.uid, cred.uid);
        Wcc wcc;
        EXPECT_EQ(vfs->symlink(cred, {root, "l" + n}, "x", node, wcc), NFS3_OK);
        EXPECT_EQ(node.attr.uid, cred.uid);
        Attr like;
        like.type = NF3FIFO;
        like.mode = 0600;
        EXPECT_EQ(vfs->mknod(cred, {root, "p" + n}, like, node, wcc), NFS3_OK);
        EXPECT_EQ(node.attr.uid, cred.uid);
        like.type = NF3CHR;
        like.rdev_major = 1;  // 0:0 is no device, and everybody may make it
        like.rdev_minor = 3;
        EXPECT_EQ(vfs->mknod(cred, {root, "c" + n}, like, node, wcc), NFS3ERR_PERM);
    }
}

TEST_P(VfsPosixAs, DescriptorOfOneCallerLetsNoOtherThrough) {
    const Node file = create(ann(), vfs->root(), "f", 0600);
    EXPECT_EQ(open(ann(), file.id, IoUse::write), NFS3_OK);
    EXPECT_EQ(open(ann(), file.id, IoUse::read), NFS3_OK);
    for (const Cred& cred : {bob(), cleo(), Cred{}}) {
        EXPECT_EQ(open(cred, file.id, IoUse::read), NFS3ERR_ACCES);
        EXPECT_EQ(open(cred, file.id, IoUse::write), NFS3ERR_ACCES);
        EXPECT_EQ(open(cred, file.id, IoUse::sync), NFS3ERR_ACCES);
        IoFile io;
        const auto at_once = vfs->open_io_at_once(cred, file.id, IoUse::read, io);
        EXPECT_NE(at_once.value_or(NFS3ERR_ACCES), NFS3_OK);
    }
    EXPECT_EQ(open(ann(), file.id, IoUse::read), NFS3_OK);
    // What was allowed is asked anew for each call.
    give("f", kAnn, kAnn, 0644);
    EXPECT_EQ(open(bob(), file.id, IoUse::read), NFS3_OK);
    give("f", kAnn, kAnn, 0600);
    EXPECT_EQ(open(bob(), file.id, IoUse::read), NFS3ERR_ACCES);
    Cred root;
    root.known = true;
    EXPECT_EQ(open(root, file.id, IoUse::write), NFS3_OK);
}

TEST_P(VfsPosixAs, ChangesAreTheOwnersOnly) {
    const NodeId root = vfs->root();
    const Node file = create(ann(), root, "f", 0644);
    SetAttr set;
    set.mode = 0666;
    Wcc wcc;
    EXPECT_EQ(vfs->setattr(bob(), file.id, set, nullptr, wcc), NFS3ERR_PERM);
    EXPECT_TRUE(wcc.before && wcc.after);
    EXPECT_EQ(vfs->setattr(ann(), file.id, set, nullptr, wcc), NFS3_OK);
    SetAttr give_away;
    give_away.uid = kBob;
    EXPECT_EQ(vfs->setattr(ann(), file.id, give_away, nullptr, wcc), NFS3ERR_PERM);
    // The directory is sticky: others' names stay.
    EXPECT_EQ(vfs->remove(bob(), {root, "f"}, wcc), NFS3ERR_PERM);
    Wcc to;
    EXPECT_EQ(vfs->rename(bob(), {root, "f"}, {root, "g"}, wcc, to), NFS3ERR_PERM);
    EXPECT_EQ(vfs->rename(ann(), {root, "f"}, {root, "g"}, wcc, to), NFS3_OK);
    EXPECT_EQ(vfs->remove(ann(), {root, "g"}, wcc), NFS3_OK);
    SetAttr size;
    size.size = 0;
    const Node other = create(ann(), root, "h", 0644);
    EXPECT_EQ(vfs->setattr(bob(), other.id, size, nullptr, wcc), NFS3ERR_ACCES);
    EXPECT_EQ(vfs->setattr(ann(), other.id, size, nullptr, wcc), NFS3_OK);
}

TEST_P(VfsPosixAs, EveryGroupCounts) {
    const Node first = mkdir(ann(), "first", 0770), last = mkdir(ann(), "last", 0770),
               fortieth = mkdir(ann(), "fortieth", 0770);
    give("first", 0, kGroups, 0770);
    give("last", 0, kGroups + 15, 0770);
    give("fortieth", 0, kGroups + 139, 0770);
    EXPECT_EQ(make_in(bob(), first.id, "b"), NFS3_OK);
    EXPECT_EQ(make_in(bob(), last.id, "b"), NFS3_OK);
    EXPECT_EQ(make_in(bob(), fortieth.id, "b"), NFS3ERR_ACCES);
    EXPECT_EQ(make_in(ann(), first.id, "a"), NFS3ERR_ACCES);
    EXPECT_EQ(make_in(ann(), last.id, "a"), NFS3ERR_ACCES);
    EXPECT_EQ(make_in(cleo(), last.id, "c"), NFS3ERR_ACCES);
    EXPECT_EQ(make_in(cleo(), fortieth.id, "c"), GetParam() ? NFS3_OK : NFS3ERR_ACCES);
    std::uint32_t granted = 0;
    constexpr std::uint32_t kAll = ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_MODIFY;
    EXPECT_EQ(vfs->access(bob(), last.id, kAll, granted), NFS3_OK);
    EXPECT_EQ(granted, kAll);
    EXPECT_EQ(vfs->access(ann(), last.id, kAll, granted), NFS3_OK);
    EXPECT_EQ(granted, 0u);
    // Files of a group, through a descriptor that is open.
    const Node file = create(bob(), first.id, "shared", 0660);
    give("first/shared", 0, kGroups + 15, 0660);
    EXPECT_EQ(open(bob(), file.id, IoUse::write), NFS3_OK);
    EXPECT_EQ(open(ann(), file.id, IoUse::write), NFS3ERR_ACCES);
}

// RFC 1813 s4.4
TEST_P(VfsPosixAs, OwnerReadsAndWritesWhateverTheModeSays) {
    const NodeId root = vfs->root();
    for (const std::uint32_t mode : {0444u, 0000u, 0200u, 0400u}) {
        const std::string name = "f" + std::to_string(mode);
        const Node file = create(ann(), root, name, mode);
        EXPECT_EQ(open(ann(), file.id, IoUse::write), NFS3_OK);
        vfs->tidy();  // a write that comes later opens anew
        EXPECT_EQ(open(ann(), file.id, IoUse::write), NFS3_OK);
        EXPECT_EQ(open(ann(), file.id, IoUse::read), NFS3_OK);
        EXPECT_EQ(open(ann(), file.id, IoUse::sync), NFS3_OK);
        EXPECT_EQ(open(bob(), file.id, IoUse::write), NFS3ERR_ACCES);
        EXPECT_EQ(open(bob(), file.id, IoUse::read), mode == 0444 ? NFS3_OK : NFS3ERR_ACCES);
        EXPECT_EQ(mode_of(name), mode);
    }
}

TEST_P(VfsPosixAs, RightToExecuteSufficesForReading) {
    const NodeId root = vfs->root();
    const Node program = create(ann(), root, "program", 0711);
    EXPECT_EQ(open(bob(), program.id, IoUse::read), NFS3_OK);
    EXPECT_EQ(open(bob(), program.id, IoUse::read), NFS3_OK);  // by what is open
    EXPECT_EQ(open(bob(), program.id, IoUse::write), NFS3ERR_ACCES);
    const Node of_group = create(ann(), root, "of_group", 0710);
    EXPECT_EQ(open(ann(), of_group.id, IoUse::read), NFS3_OK);
    EXPECT_EQ(open(bob(), of_group.id, IoUse::read), NFS3ERR_ACCES);
}

TEST_P(VfsPosixAs, WhoMayOnlyWriteMayFlush) {
    const Node file = create(ann(), vfs->root(), "f", 0620);
    give("f", kAnn, kGroups, 0620);
    EXPECT_EQ(open(bob(), file.id, IoUse::sync), NFS3_OK);
    EXPECT_EQ(open(bob(), file.id, IoUse::write), NFS3_OK);
    vfs->tidy();
    EXPECT_EQ(open(bob(), file.id, IoUse::sync), NFS3_OK);
    EXPECT_EQ(open(bob(), file.id, IoUse::read), NFS3ERR_ACCES);
    EXPECT_EQ(open(cleo(), file.id, IoUse::sync), NFS3ERR_ACCES);
}

TEST_P(VfsPosixAs, DirectoriesAreSearchedByTheCaller) {
    const Node closed = mkdir(ann(), "closed", 0700), listed = mkdir(ann(), "listed", 0744);
    const Node inside = create(ann(), closed.id, "inside", 0644);
    create(ann(), listed.id, "inside", 0644);
    for (const char* name : {"inside", ".", ".."}) {
        EXPECT_EQ(lookup_as(ann(), closed.id, name), NFS3_OK);
        EXPECT_EQ(lookup_as(bob(), closed.id, name), NFS3ERR_ACCES) << name;
    }
    // Who has a handle needs no way to it.
    EXPECT_EQ(open(bob(), inside.id, IoUse::read), NFS3_OK);
    struct Names final : DirSink {
        bool add(const DirEntry& entry) noexcept override {
            ++entries;
            if (entry.node != nullptr && entry.name == "inside") ++nodes;
            return true;
        }
        int entries = 0, nodes = 0;
    } names;
    bool eof = false;
    EXPECT_EQ(vfs->readdir(bob(), {closed.id, 0, true}, names, eof), NFS3ERR_ACCES);
    EXPECT_EQ(vfs->readdir(bob(), {listed.id, 0, true}, names, eof), NFS3_OK);
    EXPECT_EQ(names.entries, 3);
    EXPECT_EQ(names.nodes, 0);  // to be listed and not to be searched
    EXPECT_EQ(vfs->readdir(ann(), {listed.id, 0, true}, names, eof), NFS3_OK);
    EXPECT_EQ(names.nodes, 1);
}

TEST_P(VfsPosixAs, WritingTakesSetIdAway) {
    const Node file = create(ann(), vfs->root(), "f", 0777);
    for (const bool is_open : {false, true}) {
        give("f", 0, 0, 06777);
        if (!is_open) vfs->tidy();
        EXPECT_EQ(open(bob(), file.id, IoUse::read), NFS3_OK);
        EXPECT_EQ(mode_of("f"), 06777u);
        EXPECT_EQ(open(bob(), file.id, IoUse::write), NFS3_OK);
        EXPECT_EQ(mode_of("f"), 0777u);
    }
}

TEST_P(VfsPosixAs, AccessListsDecide) {
    const Node file = create(ann(), vfs->root(), "f", 0604);
    EXPECT_EQ(open(ann(), file.id, IoUse::read), NFS3_OK);
    EXPECT_EQ(open(bob(), file.id, IoUse::read), NFS3_OK);
    identity->become_self();
    // user::rw-, user:bob:---, group::---, mask::r--, other::r--
    struct Entry {
        std::uint16_t tag, perm;
        std::uint32_t id;
    };
    const std::array<Entry, 5> entries = {
        {{0x01, 6, ~0u}, {0x02, 0, kBob}, {0x04, 0, ~0u}, {0x10, 4, ~0u}, {0x20, 4, ~0u}}};
    std::array<char, 4 + sizeof entries> list{};
    list[0] = 2;  // the version
    std::memcpy(list.data() + 4, entries.data(), sizeof entries);
    const std::string path = dir.path() + "/f";
    if (::setxattr(path.c_str(), "system.posix_acl_access", list.data(), list.size(), 0) != 0) {
        GTEST_SKIP() << "needs root: access lists on the file system of the tests";
    }
    EXPECT_EQ(open(bob(), file.id, IoUse::read), NFS3ERR_ACCES);
    EXPECT_EQ(open(cleo(), file.id, IoUse::read), NFS3_OK);
    EXPECT_EQ(open(ann(), file.id, IoUse::write), NFS3_OK);
}

TEST_P(VfsPosixAs, IdThatIsNoneIsRefused) {
    Cred nobody_at_all = ann();
    nobody_at_all.uid = ~0u;
    EXPECT_EQ(make_in(nobody_at_all, vfs->root(), "x"), NFS3ERR_ACCES);
    EXPECT_FALSE(fs::exists(dir.path() + "/x"));
}

TEST_P(VfsPosixAs, ManyThreadsOfManyCallersDoNotMix) {
    std::atomic<int> wrong = 0;
    const Node private_file = create(ann(), vfs->root(), "private", 0600);
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint32_t i = 0; i < 150; ++i) {
                const Cred cred = (i + t) % 3 == 0 ? ann() : (i + t) % 3 == 1 ? bob() : cleo();
                const std::string name = "t" + std::to_string(t) + "_" + std::to_string(i);
                CreateHow how;
                how.attr.mode = 0600;
                Node node;
                Wcc wcc;
                if (vfs->create(cred, {vfs->root(), name}, how, node, wcc) != NFS3_OK) ++wrong;
                if (node.attr.uid != cred.uid || node.attr.gid != cred.gid) ++wrong;
                const bool is_ann = cred.uid == kAnn;
                if ((open(cred, private_file.id, IoUse::read) == NFS3_OK) != is_ann) ++wrong;
                if (i % 4 == 0 && vfs->remove(cred, {vfs->root(), name}, wcc) != NFS3_OK) ++wrong;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nfsrdma::nfs
