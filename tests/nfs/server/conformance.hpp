#pragma once
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "nfs/status.hpp"
#include "tests/nfs/nfs_world.hpp"
#include "tests/nfs/rdma_world.hpp"

// The world of the conformance run: each procedure as one function, what it is documented to
// answer, and the table of what it did.

namespace nfsrdma::testing {

using nfs::MemCall;
using Statuses = std::vector<nfsstat3>;

// What came back. `told`: the attributes, or the wcc data, that the RFC wants in this arm.
struct Outcome {
    nfsstat3 status = NFS3ERR_SERVERFAULT;
    bool told = false;
};

inline bool follows(const post_op_attr& attr) {
    return attr.attributes_follow != FALSE;
}
// After a change both are known; after a failure at least how it is now.
inline bool follows(const wcc_data& wcc, nfsstat3 status) {
    return follows(wcc.after) && (status != NFS3_OK || wcc.before.attributes_follow != FALSE);
}

// What a call is made on; the default is one that succeeds.
struct Target {
    Handle object{};           // file or directory
    Handle second{};           // the directory of LINK, and RENAME's target
    std::string name = "new";  // in the directory
    std::string second_name = "renamed";
    std::uint64_t offset = 0, cookie = 0;
    std::uint32_t count = 4096;
};

class Conformance : public ::testing::Test {
  protected:
    Conformance() : w_(options()) {
        root_ = of("/export", w_.vfs->root());
        read_only_ = of("/read_only", w_.vfs->root());
        other_ = of("/other", w_.other_vfs->root());
        const nfs::Cred cred;
        nfs::Wcc wcc;
        nfs::Node node;
        const nfs::NodeId root = w_.vfs->root();
        EXPECT_EQ(w_.vfs->create(cred, {root, "file"}, {}, node, wcc), NFS3_OK);
        file_ = of("/export", node.id);
        nfs::IoFile io;
        std::uint32_t moved = 0;
        EXPECT_EQ(w_.vfs->open_io(cred, node.id, nfs::IoUse::write, io), NFS3_OK);
        EXPECT_EQ(w_.vfs->write_now(io, 0, std::as_bytes(std::span("0123456789", 10)), moved),
                  NFS3_OK);
        w_.vfs->close_io(io);
        EXPECT_EQ(w_.vfs->mkdir(cred, {root, "empty"}, {}, node, wcc), NFS3_OK);
        empty_ = of("/export", node.id);
        EXPECT_EQ(w_.vfs->mkdir(cred, {root, "full"}, {}, node, wcc), NFS3_OK);
        full_ = of("/export", node.id);
        EXPECT_EQ(w_.vfs->create(cred, {node.id, "inside"}, {}, node, wcc), NFS3_OK);
        EXPECT_EQ(w_.vfs->symlink(cred, {root, "link"}, "target", node, wcc), NFS3_OK);
        link_ = of("/export", node.id);
        EXPECT_EQ(w_.vfs->create(cred, {root, "gone"}, {}, node, wcc), NFS3_OK);
        stale_ = of("/export", node.id);
        EXPECT_EQ(w_.vfs->remove(cred, {root, "gone"}, wcc), NFS3_OK);
        bad_.bytes.assign(28, 'x');
    }
    static nfs::VfsMemOptions options() {
        nfs::VfsMemOptions mem;
        mem.capacity_bytes = 1 << 20;
        mem.max_file_bytes = 512 << 10;
        return mem;
    }
    Target in(const Handle& object, const char* name) const {
        Target t{object, root_};
        t.name = name;
        return t;
    }
    Handle of(const char* exported, nfs::NodeId id) const {
        nfs::FhBytes fh = w_.handle(exported, id);
        return Handle::of(nfs::to_fh3(fh));
    }
    template <class Args, class Res>
    Outcome ask(std::uint32_t number, const Args& args,
                const std::function<bool(const Res&)>& told) {
        Reply<Res> reply(nfs::nfs3_procs()[number]);
        w_.call(number, &args, &reply.res);
        Outcome out;
        out.status = reply->status;
        out.told = told(reply.res);
        return out;
    }

    RdmaNfs w_;
    Handle root_, read_only_, other_, file_, empty_, full_, link_, stale_, bad_;

  public:
    Outcome getattr(const Target& t) {
        return ask<GETATTR3args, GETATTR3res>(NFSPROC3_GETATTR, {t.object.fh()},
                                              [](const GETATTR3res&) { return true; });
    }
    Outcome setattr(const Target& t) { return setattr_with(t, sattr3{}, nullptr); }
    Outcome setattr_with(const Target& t, const sattr3& set, const nfstime3* guard) {
        SETATTR3args args{};
        args.object = t.object.fh();
        args.new_attributes = set;
        if (guard != nullptr) {
            args.guard.check = TRUE;
            args.guard.sattrguard3_u.obj_ctime = *guard;
        }
        return ask<SETATTR3args, SETATTR3res>(NFSPROC3_SETATTR, args, [](const SETATTR3res& res) {
            return follows(res.SETATTR3res_u.resok.obj_wcc, res.status);
        });
    }
    Outcome lookup(const Target& t) {
        return ask<LOOKUP3args, LOOKUP3res>(
            NFSPROC3_LOOKUP, {at(t.object, t.name)}, [](const LOOKUP3res& res) {
                return res.status == NFS3_OK ? follows(res.LOOKUP3res_u.resok.obj_attributes)
                                             : follows(res.LOOKUP3res_u.resfail.dir_attributes);
            });
    }
    Outcome access(const Target& t) {
        return ask<ACCESS3args, ACCESS3res>(
            NFSPROC3_ACCESS, {t.object.fh(), ACCESS3_READ}, [](const ACCESS3res& res) {
                return follows(res.status == NFS3_OK ? res.ACCESS3res_u.resok.obj_attributes
                                                     : res.ACCESS3res_u.resfail.obj_attributes);
            });
    }
    Outcome readlink(const Target& t) {
        return ask<READLINK3args, READLINK3res>(
            NFSPROC3_READLINK, {t.object.fh()}, [](const READLINK3res& res) {
                return follows(res.status == NFS3_OK
                                   ? res.READLINK3res_u.resok.symlink_attributes
                                   : res.READLINK3res_u.resfail.symlink_attributes);
            });
    }
    Outcome read(const Target& t) {
        return ask<READ3args, READ3res>(
            NFSPROC3_READ, {t.object.fh(), t.offset, t.count}, [](const READ3res& res) {
                return follows(res.status == NFS3_OK ? res.READ3res_u.resok.file_attributes
                                                     : res.READ3res_u.resfail.file_attributes);
            });
    }
    Outcome write(const Target& t) { return write_with(t, 4, FILE_SYNC); }
    Outcome write_with(const Target& t, std::uint32_t count, stable_how stable) {
        std::string data = "data";
        WRITE3args args{};
        args.file = t.object.fh();
        args.offset = t.offset;
        args.count = count;
        args.stable = stable;
        args.data.data_len = 4;
        args.data.data_val = data.data();
        return ask<WRITE3args, WRITE3res>(NFSPROC3_WRITE, args, [](const WRITE3res& res) {
            return follows(res.status == NFS3_OK ? res.WRITE3res_u.resok.file_wcc
                                                 : res.WRITE3res_u.resfail.file_wcc,
                           res.status);
        });
    }
    Outcome create(const Target& t) { return create_with(t, GUARDED, 1); }
    Outcome create_with(const Target& t, createmode3 mode, std::uint64_t verifier) {
        CREATE3args args{};
        args.where = at(t.object, t.name);
        args.how.mode = mode;
        if (mode == EXCLUSIVE) store_be64(as_bytes(args.how.createhow3_u.verf), verifier);
        return ask<CREATE3args, CREATE3res>(NFSPROC3_CREATE, args, [](const CREATE3res& res) {
            return follows(res.status == NFS3_OK ? res.CREATE3res_u.resok.dir_wcc
                                                 : res.CREATE3res_u.resfail.dir_wcc,
                           res.status);
        });
    }
    Outcome mkdir(const Target& t) {
        return ask<MKDIR3args, MKDIR3res>(
            NFSPROC3_MKDIR, {at(t.object, t.name), {}}, [](const MKDIR3res& res) {
                return follows(res.status == NFS3_OK ? res.MKDIR3res_u.resok.dir_wcc
                                                     : res.MKDIR3res_u.resfail.dir_wcc,
                               res.status);
            });
    }
    Outcome symlink(const Target& t) {
        std::string target = "somewhere";
        SYMLINK3args args{};
        args.where = at(t.object, t.name);
        args.symlink.symlink_data = target.data();
        return ask<SYMLINK3args, SYMLINK3res>(NFSPROC3_SYMLINK, args, [](const SYMLINK3res& res) {
            return follows(res.status == NFS3_OK ? res.SYMLINK3res_u.resok.dir_wcc
                                                 : res.SYMLINK3res_u.resfail.dir_wcc,
                           res.status);
        });
    }
    Outcome mknod(const Target& t) { return mknod_of(t, NF3FIFO); }
    Outcome mknod_of(const Target& t, ftype3 type) {
        MKNOD3args args{};
        args.where = at(t.object, t.name);
        args.what.type = type;
        return ask<MKNOD3args, MKNOD3res>(NFSPROC3_MKNOD, args, [](const MKNOD3res& res) {
            return follows(res.status == NFS3_OK ? res.MKNOD3res_u.resok.dir_wcc
                                                 : res.MKNOD3res_u.resfail.dir_wcc,
                           res.status);
        });
    }
    Outcome remove(const Target& t) {
        return ask<REMOVE3args, REMOVE3res>(
            NFSPROC3_REMOVE, {at(t.object, t.name)}, [](const REMOVE3res& res) {
                return follows(res.REMOVE3res_u.resok.dir_wcc, res.status);
            });
    }
    Outcome rmdir(const Target& t) {
        return ask<RMDIR3args, RMDIR3res>(
            NFSPROC3_RMDIR, {at(t.object, t.name)}, [](const RMDIR3res& res) {
                return follows(res.RMDIR3res_u.resok.dir_wcc, res.status);
            });
    }
    Outcome rename(const Target& t) {
        return ask<RENAME3args, RENAME3res>(
            NFSPROC3_RENAME, {at(t.object, t.name), at(t.second, t.second_name)},
            [](const RENAME3res& res) {
                return follows(res.RENAME3res_u.resok.fromdir_wcc, res.status) &&
                       follows(res.RENAME3res_u.resok.todir_wcc, res.status);
            });
    }
    Outcome link(const Target& t) {
        return ask<LINK3args, LINK3res>(
            NFSPROC3_LINK, {t.object.fh(), at(t.second, t.second_name)}, [](const LINK3res& res) {
                return follows(res.LINK3res_u.resok.file_attributes) &&
                       follows(res.LINK3res_u.resok.linkdir_wcc, res.status);
            });
    }
    Outcome readdir(const Target& t) {
        READDIR3args args{};
        args.dir = t.object.fh();
        args.cookie = t.cookie;
        args.count = t.count;
        return ask<READDIR3args, READDIR3res>(NFSPROC3_READDIR, args, [](const READDIR3res& res) {
            return follows(res.status == NFS3_OK ? res.READDIR3res_u.resok.dir_attributes
                                                 : res.READDIR3res_u.resfail.dir_attributes);
        });
    }
    Outcome readdirplus(const Target& t) {
        READDIRPLUS3args args{};
        args.dir = t.object.fh();
        args.cookie = t.cookie;
        args.dircount = args.maxcount = t.count;
        return ask<READDIRPLUS3args, READDIRPLUS3res>(
            NFSPROC3_READDIRPLUS, args, [](const READDIRPLUS3res& res) {
                return follows(res.status == NFS3_OK
                                   ? res.READDIRPLUS3res_u.resok.dir_attributes
                                   : res.READDIRPLUS3res_u.resfail.dir_attributes);
            });
    }
    Outcome fsstat(const Target& t) {
        return ask<FSSTAT3args, FSSTAT3res>(
            NFSPROC3_FSSTAT, {t.object.fh()}, [](const FSSTAT3res& res) {
                return follows(res.status == NFS3_OK ? res.FSSTAT3res_u.resok.obj_attributes
                                                     : res.FSSTAT3res_u.resfail.obj_attributes);
            });
    }
    Outcome fsinfo(const Target& t) {
        return ask<FSINFO3args, FSINFO3res>(
            NFSPROC3_FSINFO, {t.object.fh()}, [](const FSINFO3res& res) {
                return follows(res.status == NFS3_OK ? res.FSINFO3res_u.resok.obj_attributes
                                                     : res.FSINFO3res_u.resfail.obj_attributes);
            });
    }
    Outcome pathconf(const Target& t) {
        return ask<PATHCONF3args, PATHCONF3res>(
            NFSPROC3_PATHCONF, {t.object.fh()}, [](const PATHCONF3res& res) {
                return follows(res.status == NFS3_OK ? res.PATHCONF3res_u.resok.obj_attributes
                                                     : res.PATHCONF3res_u.resfail.obj_attributes);
            });
    }
    Outcome commit(const Target& t) {
        return ask<COMMIT3args, COMMIT3res>(
            NFSPROC3_COMMIT, {t.object.fh(), 0, 0}, [](const COMMIT3res& res) {
                return follows(res.status == NFS3_OK ? res.COMMIT3res_u.resok.file_wcc
                                                     : res.COMMIT3res_u.resfail.file_wcc,
                               res.status);
            });
    }

  protected:
    using Ask = Outcome (Conformance::*)(const Target&);
    struct Procedure {
        const char* name;
        Ask ask;
        std::vector<MemCall> calls;  // where a fault can hit it
        Statuses documented;         // RFC 1813 s3.3, in its order
        Target good;
    };
    std::vector<Procedure> procedures() const {
        constexpr auto kIo = NFS3ERR_IO, kStale = NFS3ERR_STALE, kBad = NFS3ERR_BADHANDLE,
                       kFault = NFS3ERR_SERVERFAULT, kAcces = NFS3ERR_ACCES, kRofs = NFS3ERR_ROFS,
                       kNospc = NFS3ERR_NOSPC, kDquot = NFS3ERR_DQUOT, kInval = NFS3ERR_INVAL,
                       kNotdir = NFS3ERR_NOTDIR, kExist = NFS3ERR_EXIST, kNoent = NFS3ERR_NOENT,
                       kLong = NFS3ERR_NAMETOOLONG, kNotsupp = NFS3ERR_NOTSUPP;
        const Statuses any = {kStale, kBad, kFault};
        const Statuses make = {kIo,   kAcces, kExist, kNotdir, kNospc,   kRofs,
                               kLong, kDquot, kStale, kBad,    kNotsupp, kFault};
        Statuses make_node = make;
        make_node.push_back(NFS3ERR_BADTYPE);
        const Statuses list = {kIo,    kAcces, kNotdir, NFS3ERR_BAD_COOKIE, NFS3ERR_TOOSMALL,
                               kStale, kBad,   kFault};
        Statuses list_plus = list;
        list_plus.push_back(kNotsupp);
        const Target file{file_, root_, "new", "hard"}, dir{root_, root_}, link{link_, root_};
        const auto named = [&](const char* name) {
            Target t{root_, root_};
            t.name = name;
            return t;
        };
        return {
            {"GETATTR",
             &Conformance::getattr,
             {MemCall::getattr},
             {kIo, kStale, kBad, kFault},
             file},
            {"SETATTR",
             &Conformance::setattr,
             {MemCall::setattr},
             {NFS3ERR_PERM, kIo, kAcces, kInval, kNospc, kRofs, kDquot, NFS3ERR_NOT_SYNC, kStale,
              kBad, kNotsupp, kFault},
             file},
            {"LOOKUP",
             &Conformance::lookup,
             {MemCall::lookup},
             {kIo, kNoent, kAcces, kNotdir, kLong, kStale, kBad, kFault},
             named("file")},
            {"ACCESS", &Conformance::access, {MemCall::access}, {kIo, kStale, kBad, kFault}, file},
            {"READLINK",
             &Conformance::readlink,
             {MemCall::readlink},
             {kIo, kInval, kAcces, kStale, kBad, kNotsupp, kFault},
             link},
            {"READ",
             &Conformance::read,
             {MemCall::open_io, MemCall::read_now},
             {kIo, NFS3ERR_NXIO, kAcces, kInval, kStale, kBad, kFault},
             file},
            {"WRITE",
             &Conformance::write,
             {MemCall::open_io, MemCall::write_now, MemCall::sync_now},
             {kIo, kAcces, NFS3ERR_FBIG, kDquot, kNospc, kRofs, kInval, kStale, kBad, kFault},
             file},
            {"CREATE", &Conformance::create, {MemCall::create}, make, named("created")},
            {"MKDIR", &Conformance::mkdir, {MemCall::mkdir}, make, named("made")},
            {"SYMLINK", &Conformance::symlink, {MemCall::symlink}, make, named("linked")},
            {"MKNOD", &Conformance::mknod, {MemCall::mknod}, make_node, named("node")},
            {"REMOVE",
             &Conformance::remove,
             {MemCall::remove},
             {kNoent, kIo, kAcces, kNotdir, kLong, kRofs, kStale, kBad, kFault},
             named("link")},
            {"RMDIR",
             &Conformance::rmdir,
             {MemCall::rmdir},
             {kNoent, kIo, kAcces, kInval, kExist, kNotdir, kLong, kRofs, NFS3ERR_NOTEMPTY, kStale,
              kBad, kNotsupp, kFault},
             named("empty")},
            {"RENAME",
             &Conformance::rename,
             {MemCall::rename},
             {kNoent, kIo, kAcces, kExist, NFS3ERR_XDEV, kNotdir, NFS3ERR_ISDIR, kInval, kNospc,
              kRofs, NFS3ERR_MLINK, kLong, NFS3ERR_NOTEMPTY, kDquot, kStale, kBad, kNotsupp,
              kFault},
             named("file")},
            {"LINK",
             &Conformance::link,
             {MemCall::link},
             {kIo, kAcces, kExist, NFS3ERR_XDEV, kNotdir, kInval, kNospc, kRofs, NFS3ERR_MLINK,
              kLong, kDquot, kStale, kBad, kNotsupp, kFault},
             file},
            {"READDIR", &Conformance::readdir, {MemCall::readdir}, list, dir},
            {"READDIRPLUS", &Conformance::readdirplus, {MemCall::readdir}, list_plus, dir},
            {"FSSTAT", &Conformance::fsstat, {MemCall::statfs}, {kIo, kStale, kBad, kFault}, dir},
            {"FSINFO", &Conformance::fsinfo, {MemCall::statfs}, any, dir},
            {"PATHCONF", &Conformance::pathconf, {MemCall::statfs}, any, dir},
            {"COMMIT",
             &Conformance::commit,
             {MemCall::open_io, MemCall::sync_now},
             {kIo, kStale, kBad, kFault},
             file},
        };
    }

    // What was asked for and what came; the whole table is printed when a line of it is wrong.
    void note(const std::string& what, nfsstat3 wanted, const Outcome& got, bool must_tell) {
        const bool right = got.status == wanted && (got.told || !must_tell);
        std::ostringstream line;
        line << (right ? "  ok    " : "  WRONG ") << what << ": " << nfs::to_string(wanted);
        if (got.status != wanted) line << ", got " << nfs::to_string(got.status);
        if (must_tell && !got.told) line << ", without attributes";
        lines_.push_back(line.str());
        if (!right) ++wrong_;
    }
    void TearDown() override {
        if (wrong_ == 0) return;
        std::ostringstream table;
        for (const std::string& line : lines_)
            table << line << "\n";
        ADD_FAILURE() << wrong_ << " of " << lines_.size() << ":\n" << table.str();
    }
    std::vector<std::string> lines_;
    int wrong_ = 0;
};

}  // namespace nfsrdma::testing
