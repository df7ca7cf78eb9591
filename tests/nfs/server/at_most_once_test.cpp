// Copies of calls that must not run twice, over all of the NFS server.
#include <gtest/gtest.h>

#include "nfs/server/table.hpp"
#include "sunrpc/reply_cache.hpp"
#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

// A second client connection to the same service, a cache, and a table of procedures that counts
// what is executed and, like a slow backend, lets a copy come while the first is at it.
class OnceWorld {
  public:
    OnceWorld() {
        const sunrpc::SvcProgram program = nfs::nfs3_program(w.server);
        for (std::size_t i = 0; i < program.procedures.size(); ++i) {
            table_[i] = program.procedures[i];
            table_[i].may_block = nullptr;
            if (i != 0) table_[i].handle = on_any;
        }
        sunrpc::SvcProgram counting = program;
        counting.procedures = table_;
        real_ = program.procedures;
        dispatcher_.add(counting);
        dispatcher_.set_reply_cache(&cache);
        for (auto& xprt : xprts_)
            xprt = std::make_unique<DirectXprt>(*w.world.loop, dispatcher_, DirectOptions{});
        the_one = this;
    }
    ~OnceWorld() { the_one = nullptr; }
    OnceWorld(const OnceWorld&) = delete;
    OnceWorld& operator=(const OnceWorld&) = delete;

    // The call message of `args`; each has an XID of its own.
    template <class Args>
    std::vector<std::byte> message(std::uint32_t proc, const Args& args) {
        std::vector<std::byte> out(8192);
        sunrpc::CallHeader header;
        header.xid = ++xid_;
        header.prog = NFS3_PROGRAM;
        header.vers = NFS_V3;
        header.proc = proc;
        sunrpc::AuthSys sys;
        sys.uid = ::geteuid();
        sys.gid = ::getegid();
        const std::uint32_t used = *sunrpc::encode_call(out, header, &sys);
        Args copy = args;
        XDR xdr{};
        xdrmem_create(&xdr, as_chars(out.data() + used), 8192 - used, XDR_ENCODE);
        EXPECT_NE(nfs::nfs3_procs()[proc].xdr_args(&xdr, &copy), FALSE);
        out.resize(used + xdr_getpos(&xdr));
        return out;
    }
    // NFS status.
    static std::uint32_t status(const RawReply& reply) {
        EXPECT_TRUE(reply.answered);
        return reply.answered ? reply.word(6) : ~0u;
    }
    RawReply send(std::size_t connection, const std::vector<std::byte>& message) {
        return xprts_.at(connection)->server().raw_call(message);
    }
    // The whole of B85 for one call: a copy on another connection while it is executed waits,
    // copies afterwards, on either, get the same answer, and it was executed once.
    template <class Args>
    void expect_once(std::uint32_t proc, const Args& args) {
        SCOPED_TRACE(nfs::nfs3_procs()[proc].name);
        const std::vector<std::byte> call = message(proc, args);
        executed = 0;
        copy_ = &call;
        const RawReply first = send(0, call);
        EXPECT_EQ(status(first), 0u);
        EXPECT_EQ(copy_, nullptr);
        EXPECT_FALSE(copy_reply_.dropped || copy_reply_.answered);
        w.world.run_idle();
        for (const std::size_t connection : {1u, 0u, 1u})
            EXPECT_EQ(send(connection, call).message, first.message);
        EXPECT_EQ(executed, 1u);
    }

    NfsWorld w{Backend::mem};
    sunrpc::ReplyCache cache{{}};
    std::uint32_t executed = 0;

  private:
    static void on_any(sunrpc::SvcCall& call) noexcept {
        OnceWorld& self = *the_one;
        ++self.executed;
        if (self.copy_ != nullptr) {
            const auto& copy = *std::exchange(self.copy_, nullptr);
            self.copy_reply_ = self.send(1, copy);
        }
        self.real_[call.proc_number].handle(call);
    }
    static inline OnceWorld* the_one = nullptr;
    std::array<sunrpc::SvcProcedure, 22> table_;
    std::span<const sunrpc::SvcProcedure> real_;
    sunrpc::SvcDispatcher dispatcher_;
    std::array<std::unique_ptr<DirectXprt>, 2> xprts_;
    const std::vector<std::byte>* copy_ = nullptr;
    RawReply copy_reply_;
    std::uint32_t xid_ = 1000;
};

TEST(B85, SlowCallsThatAreRepeatedRunOnce) {
    OnceWorld o;
    const Handle file = o.w.file(o.w.root, "file");
    std::string file_name = "file", gone = "gone", dir = "dir", old_dir = "old", moved = "moved",
                linked = "linked", link = "link", target = "target", fifo = "fifo";
    o.w.file(o.w.root, gone);
    o.w.directory(o.w.root, old_dir);
    o.expect_once(NFSPROC3_REMOVE, REMOVE3args{at(o.w.root, gone)});
    o.expect_once(NFSPROC3_RENAME, RENAME3args{at(o.w.root, file_name), at(o.w.root, moved)});
    o.expect_once(NFSPROC3_LINK, LINK3args{file.fh(), at(o.w.root, linked)});
    o.expect_once(NFSPROC3_RMDIR, RMDIR3args{at(o.w.root, old_dir)});
    MKDIR3args make{};
    make.where = at(o.w.root, dir);
    o.expect_once(NFSPROC3_MKDIR, make);
    SYMLINK3args sym{};
    sym.where = at(o.w.root, link);
    sym.symlink.symlink_data = text(target);
    o.expect_once(NFSPROC3_SYMLINK, sym);
    MKNOD3args node{};
    node.where = at(o.w.root, fifo);
    node.what.type = NF3FIFO;
    o.expect_once(NFSPROC3_MKNOD, node);
}

TEST(B85, GuardedSetattrRunsOnce) {
    OnceWorld o;
    const Handle file = o.w.file(o.w.root, "file");
    SETATTR3args args{};
    args.object = file.fh();
    args.new_attributes.mode.set_it = TRUE;
    args.new_attributes.mode.set_mode3_u.mode = 0600;
    args.guard.check = TRUE;
    args.guard.sattrguard3_u.obj_ctime = o.w.attr(file).ctime;
    o.expect_once(NFSPROC3_SETATTR, args);  // a second time it would be NFS3ERR_NOT_SYNC
}

TEST(B85, GuardedCreateRunsOnce) {
    OnceWorld o;
    std::string name = "new";
    CREATE3args args{};
    args.where = at(o.w.root, name);
    args.how.mode = GUARDED;
    o.expect_once(NFSPROC3_CREATE, args);
}

TEST(B85, FailuresAreRepeatedToo) {
    OnceWorld o;
    std::string name = "name";
    const auto call = o.message(NFSPROC3_REMOVE, REMOVE3args{at(o.w.root, name)});
    const RawReply first = o.send(0, call);
    EXPECT_EQ(OnceWorld::status(first), static_cast<std::uint32_t>(NFS3ERR_NOENT));
    o.w.file(o.w.root, name);
    EXPECT_EQ(o.send(1, call).message, first.message);
    EXPECT_EQ(o.w.lookup(o.w.root, name)->status, NFS3_OK);
}

TEST(B85, WhatMayRunTwiceIsNotKept) {
    OnceWorld o;
    const Handle file = o.w.file(o.w.root, "file", "text");
    const auto call = o.message(NFSPROC3_GETATTR, GETATTR3args{file.fh()});
    EXPECT_EQ(OnceWorld::status(o.send(0, call)), 0u);
    EXPECT_EQ(OnceWorld::status(o.send(1, call)), 0u);
    EXPECT_EQ(o.executed, 2u);
    EXPECT_EQ(o.cache.counters().executed, 0u);
}

TEST(AtMostOnce, TheTableSaysWhich) {
    nfs::Server server;
    const auto procedures = nfs::nfs3_program(server).procedures;
    for (std::size_t i = 0; i < procedures.size(); ++i) {
        const bool once = i == NFSPROC3_SETATTR || i == NFSPROC3_CREATE || i == NFSPROC3_MKDIR ||
                          i == NFSPROC3_SYMLINK || i == NFSPROC3_MKNOD || i == NFSPROC3_REMOVE ||
                          i == NFSPROC3_RMDIR || i == NFSPROC3_RENAME || i == NFSPROC3_LINK;
        EXPECT_EQ(procedures[i].once, once) << procedures[i].info.name;
    }
}

}  // namespace
}  // namespace nfsrdma::testing
