// Every procedure of RFC 1813 with each status that the RFC documents for it, over the wire. What a
// call can bring about by itself is brought about; the rest is injected into the backend.
#include "tests/nfs/server/conformance.hpp"

namespace nfsrdma::testing {
namespace {

TEST_F(Conformance, EveryProcedureAnswersEachDocumentedStatus) {
    for (const Procedure& procedure : procedures()) {
        Statuses statuses = procedure.documented;
        statuses.push_back(NFS3ERR_JUKEBOX);  // of all (RFC 1813 s2.6)
        for (const MemCall call : procedure.calls) {
            for (const nfsstat3 status : statuses) {
                if (procedure.ask == &Conformance::getattr && status == NFS3ERR_JUKEBOX) continue;
                w_.vfs->inject(call, {.status = status});
                const std::string what = std::string(procedure.name) + " at backend call " +
                                         std::to_string(static_cast<int>(call));
                note(what, status, (this->*procedure.ask)(procedure.good), true);
                w_.vfs->heal();
            }
        }
        note(procedure.name, NFS3_OK, (this->*procedure.ask)(procedure.good), true);
    }
}

TEST_F(Conformance, HandlesThatAreNoneOrOfNothing) {
    for (const Procedure& procedure : procedures()) {
        for (const auto& [handle, status] :
             {std::pair{bad_, NFS3ERR_BADHANDLE}, std::pair{stale_, NFS3ERR_STALE}}) {
            Target t = procedure.good;
            t.object = handle;
            note(procedure.name, status, (this->*procedure.ask)(t), false);
        }
    }
    for (const Ask asked : {&Conformance::rename, &Conformance::link}) {
        Target t{asked == &Conformance::link ? file_ : root_, bad_};
        t.name = "file";
        note("second handle", NFS3ERR_BADHANDLE, (this->*asked)(t), false);
        t.second = stale_;
        note("second handle", NFS3ERR_STALE, (this->*asked)(t), false);
    }
}

TEST_F(Conformance, ChangesOfAReadOnlyExportAreRefused) {
    for (const Procedure& procedure : procedures()) {
        const Statuses& documented = procedure.documented;
        if (std::find(documented.begin(), documented.end(), NFS3ERR_ROFS) == documented.end())
            continue;
        Target t = procedure.good;
        const bool on_file = t.object == file_;
        t.object = on_file ? of("/read_only", nfs::NodeId{2, 2}) : read_only_;
        t.second = read_only_;
        note(procedure.name, NFS3ERR_ROFS, (this->*procedure.ask)(t), true);
    }
}

TEST_F(Conformance, NamesAndListings) {
    const std::string too_long(256, 'n');
    // Names, and directories that are none.
    for (const Procedure& p : procedures()) {
        Target t = p.good;
        t.name = t.second_name = too_long;
        const bool has_name = std::find(p.documented.begin(), p.documented.end(),
                                        NFS3ERR_NAMETOOLONG) != p.documented.end();
        if (!has_name) continue;
        note(std::string(p.name) + " of 256 bytes", NFS3ERR_NAMETOOLONG, (this->*p.ask)(t), true);
        t = p.good;
        (p.ask == &Conformance::link ? t.second : t.object) = file_;
        note(std::string(p.name) + " in a file", NFS3ERR_NOTDIR, (this->*p.ask)(t), true);
    }
    note("READDIR of a file", NFS3ERR_NOTDIR, readdir({file_}), true);
    note("READDIRPLUS of a file", NFS3ERR_NOTDIR, readdirplus({file_}), true);
    Target small{root_};
    for (const std::uint32_t count : {0u, 1u, 64u}) {
        small.count = count;
        note("READDIR too small", NFS3ERR_TOOSMALL, readdir(small), true);
        note("READDIRPLUS too small", NFS3ERR_TOOSMALL, readdirplus(small), true);
    }
    note("LOOKUP", NFS3ERR_NOENT, lookup(in(root_, "none")), true);
}

TEST_F(Conformance, FilesAndAttributes) {
    note("READLINK of a file", NFS3ERR_INVAL, readlink({file_}), true);
    note("READ of a directory", NFS3ERR_ISDIR, read({root_}), true);
    note("READ of a link", NFS3ERR_INVAL, read({link_}), true);
    note("WRITE of a directory", NFS3ERR_ISDIR, write({root_}), true);
    note("WRITE count over data", NFS3ERR_INVAL, write_with({file_}, 5, UNSTABLE), true);
    Target far{file_};
    far.offset = ~std::uint64_t{0};
    note("WRITE at the end of numbers", NFS3ERR_FBIG, write(far), true);
    far.offset = 600 << 10;
    note("WRITE beyond the largest file", NFS3ERR_FBIG, write(far), true);
    const nfstime3 never{1, 1};
    note("SETATTR guarded", NFS3ERR_NOT_SYNC, setattr_with({file_}, {}, &never), true);
    sattr3 set{};
    set.size.set_it = TRUE;
    set.size.set_size3_u.size = 600 << 10;
    note("SETATTR of a size too big", NFS3ERR_FBIG, setattr_with({file_}, set, nullptr), true);
    note("SETATTR of a directory's size", NFS3ERR_ISDIR, setattr_with({root_}, set, nullptr), true);
}

TEST_F(Conformance, MakingAndRemoving) {
    for (const Ask asked :
         {&Conformance::create, &Conformance::mkdir, &Conformance::symlink, &Conformance::mknod}) {
        for (const char* name : {"file", "empty", "link", ".", ".."})
            note(std::string("make ") + name, NFS3ERR_EXIST, (this->*asked)(in(root_, name)), true);
        for (const char* name : {"", "a/b", "../x"})
            note(std::string("make ") + name, NFS3ERR_INVAL, (this->*asked)(in(root_, name)), true);
    }
    note("MKNOD of a file", NFS3ERR_BADTYPE, mknod_of(in(root_, "n"), NF3REG), true);
    note("MKNOD of a directory", NFS3ERR_BADTYPE, mknod_of(in(root_, "n"), NF3DIR), true);
    note("REMOVE", NFS3ERR_NOENT, remove(in(root_, "none")), true);
    note("REMOVE of a directory", NFS3ERR_ISDIR, remove(in(root_, "empty")), true);
    note("REMOVE .", NFS3ERR_INVAL, remove(in(root_, ".")), true);
    note("RMDIR", NFS3ERR_NOENT, rmdir(in(root_, "none")), true);
    note("RMDIR of a file", NFS3ERR_NOTDIR, rmdir(in(root_, "file")), true);
    note("RMDIR of a full one", NFS3ERR_NOTEMPTY, rmdir(in(root_, "full")), true);
    note("RMDIR .", NFS3ERR_INVAL, rmdir(in(root_, ".")), true);
}

TEST_F(Conformance, RenamesAndLinks) {
    const auto over = [&](const char* from, const Handle& to, const char* name) {
        Target t = in(root_, from);
        t.second = to;
        t.second_name = name;
        return rename(t);
    };
    note("RENAME", NFS3ERR_NOENT, over("none", root_, "x"), true);
    note("RENAME file over directory", NFS3ERR_ISDIR, over("file", root_, "empty"), true);
    note("RENAME directory over file", NFS3ERR_NOTDIR, over("empty", root_, "file"), true);
    note("RENAME over a full one", NFS3ERR_NOTEMPTY, over("empty", root_, "full"), true);
    note("RENAME into itself", NFS3ERR_INVAL, over("empty", empty_, "x"), true);
    note("RENAME to another export", NFS3ERR_XDEV, over("file", other_, "x"), true);
    note("RENAME .", NFS3ERR_INVAL, over(".", root_, "x"), true);
    Target t{file_, other_};
    note("LINK to another export", NFS3ERR_XDEV, link(t), true);
    t = {file_, root_};
    t.second_name = "empty";
    note("LINK over a directory", NFS3ERR_EXIST, link(t), true);
    note("COMMIT of a directory", NFS3ERR_ISDIR, commit({root_}), true);
    note("COMMIT of a link", NFS3ERR_INVAL, commit({link_}), true);
}

TEST_F(Conformance, ExclusiveCreateIsRepeated) {
    Target t{root_};
    t.name = "exclusive";
    note("new", NFS3_OK, create_with(t, EXCLUSIVE, 0xffffffff80000001), true);
    note("once more", NFS3_OK, create_with(t, EXCLUSIVE, 0xffffffff80000001), true);
    note("low half", NFS3ERR_EXIST, create_with(t, EXCLUSIVE, 0x80000001), true);
    note("high half", NFS3ERR_EXIST, create_with(t, EXCLUSIVE, 0xffffffff00000000), true);
    note("unchecked", NFS3_OK, create_with(t, UNCHECKED, 0), true);
    note("guarded", NFS3ERR_EXIST, create_with(t, GUARDED, 0), true);
}

TEST_F(Conformance, StorageThatIsFull) {
    Target t{file_};
    sattr3 set{};
    set.size.set_it = TRUE;
    set.size.set_size3_u.size = 512 << 10;
    note("as large as may be", NFS3_OK, setattr_with(t, set, nullptr), true);
    Target second{root_};
    second.name = "second";
    note("another", NFS3_OK, create(second), true);
    const nfs::Cred cred;
    nfs::Node node;
    EXPECT_EQ(w_.vfs->lookup(cred, {w_.vfs->root(), "second"}, node), NFS3_OK);
    t.object = of("/export", node.id);
    note("fills it", NFS3_OK, setattr_with(t, set, nullptr), true);
    second.name = "third";
    note("no data", NFS3_OK, create(second), true);
    EXPECT_EQ(w_.vfs->lookup(cred, {w_.vfs->root(), "third"}, node), NFS3_OK);
    t.object = of("/export", node.id);
    note("WRITE", NFS3ERR_NOSPC, write(t), true);
    note("SETATTR", NFS3ERR_NOSPC, setattr_with(t, set, nullptr), true);
}

// B91: a flush that fails is told, and everybody's unstable data is in doubt from then on.
TEST_F(Conformance, VerifierChangesWhenAFlushFails) {
    const std::uint64_t before = w_.server.write_verifier();
    note("WRITE", NFS3_OK, write({file_}), true);
    note("COMMIT", NFS3_OK, commit({file_}), true);
    EXPECT_EQ(w_.server.write_verifier(), before);
    w_.vfs->inject(MemCall::sync_now, {.status = NFS3ERR_IO, .calls = 1});
    note("COMMIT", NFS3ERR_IO, commit({file_}), true);
    const std::uint64_t after = w_.server.write_verifier();
    EXPECT_NE(after, before);
    note("COMMIT", NFS3_OK, commit({file_}), true);
    w_.vfs->inject(MemCall::sync_now, {.status = NFS3ERR_NOSPC, .calls = 1});
    note("WRITE", NFS3ERR_NOSPC, write({file_}), true);
    EXPECT_NE(w_.server.write_verifier(), after);
}

// Programs that come with NFS and are not here: their clients must learn that, and not wait.
TEST(ConformanceOfPrograms, AclAndLockingAreUnavailable) {
    NfsWorld w(Backend::mem);
    for (const std::uint32_t program : {100227u, 100021u, 100024u, 400122u}) {
        std::vector<std::byte> message(40);
        const std::uint32_t words[] = {7, 0, 2, program, 3, 0, 0, 0, 0, 0};
        for (std::size_t i = 0; i < 10; ++i)
            store_be32(message.data() + 4 * i, words[i]);
        const RawReply reply = w.xprt->server().raw_call(message);
        ASSERT_TRUE(reply.answered);
        EXPECT_EQ(reply.word(2), 0u);
        EXPECT_EQ(reply.word(5), 1u);  // PROG_UNAVAIL
    }
}

}  // namespace
}  // namespace nfsrdma::testing
