#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "nfs/binding.hpp"
#include "sunrpc/clnt.hpp"
#include "tests/nfs/temp_dir.hpp"

// The calls of a client of NFS and MOUNT, as plain functions that wait; what carries them is a
// derived class's.
namespace nfsrdma::testing {

// A file handle with its bytes.
struct Handle {
    std::vector<char> bytes;
    nfs_fh3 fh() const {
        nfs_fh3 out{};
        out.data.data_len = static_cast<u_int>(bytes.size());
        out.data.data_val = const_cast<char*>(bytes.data());  // arguments are only read
        return out;
    }
    bool operator==(const Handle&) const = default;
    static Handle of(const nfs_fh3& fh) {
        return {{fh.data.data_val, fh.data.data_val + fh.data.data_len}};
    }
};

char* text(std::string&&) = delete;
diropargs3 at(const Handle&, std::string&&) = delete;
inline char* text(const std::string& s) {
    return const_cast<char*>(s.c_str());
}
// `name` outlives the call.
inline diropargs3 at(const Handle& dir, const std::string& name) {
    return {dir.fh(), text(name)};
}

// Results, freed as libtirpc made them.
template <class Res>
class Reply {
  public:
    explicit Reply(const sunrpc::ProcInfo& proc) : proc_(&proc) {}
    Reply(Reply&& other) noexcept : res(other.res), proc_(other.proc_) { other.res = Res{}; }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;
    Reply& operator=(Reply&&) = delete;
    ~Reply() { xdr_free(proc_->xdr_res, &res); }
    Res* operator->() { return &res; }
    Res res{};

  private:
    const sunrpc::ProcInfo* proc_;
};

struct ReadReply {
    nfsstat3 status = NFS3_OK;
    bool has_attr = false;
    std::uint32_t count = 0;
    bool eof = false;
    std::string data;
};

struct Listed {
    std::string name;
    std::uint64_t fileid = 0, cookie = 0;
    bool has_attr = false, has_handle = false;
    Handle handle;
};

struct ListReply {
    nfsstat3 status = NFS3_OK;
    bool eof = false;
    std::vector<Listed> entries;
};

class NfsCalls {
  public:
    NfsCalls() = default;
    virtual ~NfsCalls() = default;
    NfsCalls(const NfsCalls&) = delete;
    NfsCalls& operator=(const NfsCalls&) = delete;

    // Calls and waits. `seen` runs while pointers into the reply message are good.
    template <class Args, class Res>
    Reply<Res> call(std::uint32_t number, const Args& args, std::span<std::byte> room = {},
                    const std::function<void(Res&)>& seen = {}) {
        return call_of<Args, Res>(*nfs, nfs::nfs3_procs()[number], number, args, room, seen);
    }
    template <class Args, class Res>
    Reply<Res> call_mount(std::uint32_t number, const Args& args) {
        return call_of<Args, Res>(*mount, nfs::mount3_procs()[number], number, args, {}, {});
    }

    Reply<LOOKUP3res> lookup(const Handle& in, const std::string& name) {
        return call<LOOKUP3args, LOOKUP3res>(NFSPROC3_LOOKUP, {at(in, name)});
    }
    // The handle of a name that must be there.
    Handle find(const Handle& in, const std::string& name) {
        auto reply = lookup(in, name);
        EXPECT_EQ(reply->status, NFS3_OK) << name;
        if (reply->status != NFS3_OK) return {};
        return Handle::of(reply->LOOKUP3res_u.resok.object);
    }
    Reply<CREATE3res> create(const Handle& in, const std::string& name,
                             createmode3 mode = UNCHECKED, std::uint32_t bits = 0644) {
        CREATE3args args{};
        args.where = at(in, name);
        args.how.mode = mode;
        args.how.createhow3_u.obj_attributes.mode.set_it = TRUE;
        args.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = bits;
        return call<CREATE3args, CREATE3res>(NFSPROC3_CREATE, args);
    }
    Reply<CREATE3res> create_exclusive(const Handle& in, const std::string& name,
                                       std::uint64_t verifier) {
        CREATE3args args{};
        args.where = at(in, name);
        args.how.mode = EXCLUSIVE;
        store_be64(as_bytes(args.how.createhow3_u.verf), verifier);
        return call<CREATE3args, CREATE3res>(NFSPROC3_CREATE, args);
    }
    // A new file, with content.
    Handle file(const Handle& in, const std::string& name, const std::string& content = {}) {
        auto reply = create(in, name);
        EXPECT_EQ(reply->status, NFS3_OK) << name;
        if (reply->status != NFS3_OK) return {};
        Handle made = Handle::of(reply->CREATE3res_u.resok.obj.post_op_fh3_u.handle);
        if (!content.empty()) {
            auto written = write(made, 0, content);
            EXPECT_EQ(written->status, NFS3_OK);
            EXPECT_EQ(written->WRITE3res_u.resok.count, content.size());
        }
        return made;
    }
    Reply<MKDIR3res> mkdir(const Handle& in, const std::string& name, std::uint32_t bits = 0755) {
        MKDIR3args args{};
        args.where = at(in, name);
        args.attributes.mode.set_it = TRUE;
        args.attributes.mode.set_mode3_u.mode = bits;
        return call<MKDIR3args, MKDIR3res>(NFSPROC3_MKDIR, args);
    }
    Handle directory(const Handle& in, const std::string& name) {
        auto reply = mkdir(in, name);
        EXPECT_EQ(reply->status, NFS3_OK) << name;
        if (reply->status != NFS3_OK) return {};
        return Handle::of(reply->MKDIR3res_u.resok.obj.post_op_fh3_u.handle);
    }
    Reply<SYMLINK3res> symlink(const Handle& in, const std::string& name,
                               const std::string& target) {
        SYMLINK3args args{};
        args.where = at(in, name);
        args.symlink.symlink_data = text(target);
        return call<SYMLINK3args, SYMLINK3res>(NFSPROC3_SYMLINK, args);
    }
    Reply<REMOVE3res> remove(const Handle& in, const std::string& name) {
        return call<REMOVE3args, REMOVE3res>(NFSPROC3_REMOVE, {at(in, name)});
    }
    Reply<RMDIR3res> rmdir(const Handle& in, const std::string& name) {
        return call<RMDIR3args, RMDIR3res>(NFSPROC3_RMDIR, {at(in, name)});
    }
    Reply<RENAME3res> rename(const Handle& from, const std::string& name, const Handle& to,
                             const std::string& new_name) {
        return call<RENAME3args, RENAME3res>(NFSPROC3_RENAME, {at(from, name), at(to, new_name)});
    }
    Reply<LINK3res> link(const Handle& file, const Handle& in, const std::string& name) {
        return call<LINK3args, LINK3res>(NFSPROC3_LINK, {file.fh(), at(in, name)});
    }
    Reply<GETATTR3res> getattr(const Handle& object) {
        return call<GETATTR3args, GETATTR3res>(NFSPROC3_GETATTR, {object.fh()});
    }
    fattr3 attr(const Handle& object) {
        auto reply = getattr(object);
        EXPECT_EQ(reply->status, NFS3_OK);
        return reply->GETATTR3res_u.resok.obj_attributes;
    }
    // Data by a Write chunk of `room` bytes, or inline when `room` is 0.
    ReadReply read(const Handle& object, std::uint64_t offset, std::uint32_t count,
                   std::uint32_t room = 1 << 20) {
        ReadReply out;
        sunrpc::Payload payload;
        if (room != 0) payload = get_payload(room);
        call<READ3args, READ3res>(
            NFSPROC3_READ, {object.fh(), offset, count}, payload.memory(), [&](READ3res& res) {
                out.status = res.status;
                out.has_attr = res.READ3res_u.resok.file_attributes.attributes_follow != FALSE;
                if (res.status != NFS3_OK) return;
                READ3resok& ok = res.READ3res_u.resok;
                out.count = ok.count;
                out.eof = ok.eof != FALSE;
                if (ok.data.data_len != 0) out.data.assign(ok.data.data_val, ok.data.data_len);
                ok.data = {};  // not libtirpc's to free
            });
        return out;
    }
    Reply<WRITE3res> write(const Handle& object, std::uint64_t offset, const std::string& data,
                           const stable_how& stable = UNSTABLE) {
        return write_count(object, offset, data, static_cast<std::uint32_t>(data.size()), stable);
    }
    Reply<WRITE3res> write_count(const Handle& object, std::uint64_t offset,
                                 const std::string& data, std::uint32_t count,
                                 const stable_how& stable) {
        sunrpc::Payload payload = get_payload(narrow<std::uint32_t>(data.size()));
        if (!data.empty()) std::memcpy(payload.memory().data(), data.data(), data.size());
        WRITE3args args{};
        args.file = object.fh();
        args.offset = offset;
        args.count = count;
        std::memcpy(&args.stable, &stable, sizeof stable);  // also one that is none
        args.data.data_len = static_cast<u_int>(data.size());
        args.data.data_val = as_chars(payload.memory().data());
        return call<WRITE3args, WRITE3res>(NFSPROC3_WRITE, args);
    }
    Reply<SETATTR3res> setattr(const Handle& object, const sattr3& set,
                               const nfstime3* guard = nullptr) {
        SETATTR3args args{};
        args.object = object.fh();
        args.new_attributes = set;
        if (guard != nullptr) {
            args.guard.check = TRUE;
            args.guard.sattrguard3_u.obj_ctime = *guard;
        }
        return call<SETATTR3args, SETATTR3res>(NFSPROC3_SETATTR, args);
    }
    ListReply readdir(const Handle& in, std::uint64_t cookie, std::uint32_t count) {
        READDIR3args args{};
        args.dir = in.fh();
        args.cookie = cookie;
        args.count = count;
        auto reply = call<READDIR3args, READDIR3res>(NFSPROC3_READDIR, args);
        ListReply out;
        out.status = reply->status;
        if (out.status != NFS3_OK) return out;
        const dirlist3& list = reply->READDIR3res_u.resok.reply;
        out.eof = list.eof != FALSE;
        for (const entry3* e = list.entries; e != nullptr; e = e->nextentry) {
            out.entries.push_back({e->name, e->fileid, e->cookie, false, false, {}});
        }
        return out;
    }
    ListReply readdirplus(const Handle& in, std::uint64_t cookie, std::uint32_t dircount,
                          std::uint32_t maxcount) {
        READDIRPLUS3args args{};
        args.dir = in.fh();
        args.cookie = cookie;
        args.dircount = dircount;
        args.maxcount = maxcount;
        auto reply = call<READDIRPLUS3args, READDIRPLUS3res>(NFSPROC3_READDIRPLUS, args);
        ListReply out;
        out.status = reply->status;
        if (out.status != NFS3_OK) return out;
        const dirlistplus3& list = reply->READDIRPLUS3res_u.resok.reply;
        out.eof = list.eof != FALSE;
        for (const entryplus3* e = list.entries; e != nullptr; e = e->nextentry) {
            Listed listed{e->name, e->fileid, e->cookie, false, false, {}};
            listed.has_attr = e->name_attributes.attributes_follow != FALSE;
            listed.has_handle = e->name_handle.handle_follows != FALSE;
            if (listed.has_handle) {
                listed.handle = Handle::of(e->name_handle.post_op_fh3_u.handle);
            }
            out.entries.push_back(listed);
        }
        return out;
    }
    // All names of a directory, page by page; each must come once. `plus`: by READDIRPLUS.
    std::set<std::string> list(const Handle& in, bool plus, std::uint32_t count,
                               const std::function<void()>& between = {}) {
        std::set<std::string> names;
        std::uint64_t cookie = 0;
        for (;;) {
            const ListReply page =
                plus ? readdirplus(in, cookie, count, count) : readdir(in, cookie, count);
            EXPECT_EQ(page.status, NFS3_OK);
            if (page.status != NFS3_OK) return names;
            for (const Listed& entry : page.entries) {
                EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " came twice";
                cookie = entry.cookie;
            }
            if (page.eof || page.entries.empty()) return names;
            if (between) between();
        }
    }

    TempDir dir;  // what is exported; empty where that is in memory
    std::unique_ptr<sunrpc::Clnt> nfs, mount;
    Handle root;

  protected:
    virtual sunrpc::Payload get_payload(std::uint32_t bytes) = 0;
    // False when that takes too long.
    virtual bool run_until(const std::function<bool()>& finished) = 0;

  private:
    template <class Args, class Res>
    Reply<Res> call_of(sunrpc::Clnt& clnt, const sunrpc::ProcInfo& proc, std::uint32_t number,
                       const Args& args, std::span<std::byte> room,
                       const std::function<void(Res&)>& seen) {
        Reply<Res> reply(proc);
        sunrpc::Call rpc;
        rpc.proc = &proc;
        rpc.proc_number = number;
        rpc.args = &args;
        rpc.res = &reply.res;
        rpc.result_room = room;
        std::function<void()> when_seen;
        if (seen) when_seen = [&] { seen(reply.res); };
        run(clnt, rpc, when_seen);
        return reply;
    }
    void run(sunrpc::Clnt& clnt, sunrpc::Call& rpc, const std::function<void()>& seen) {
        struct Waiting {
            const std::function<void()>& seen;
            bool done = false;
        } waiting{seen};
        const sunrpc::DdpItem& item = rpc.proc->arg_item;
        rpc.args_in_payload = item.exists() && item.string_bound == 0;
        rpc.user = &waiting;
        rpc.done = [](sunrpc::Call& c, Result<void> result) noexcept {
            auto& w = *static_cast<Waiting*>(c.user);
            w.done = true;
            EXPECT_TRUE(static_cast<bool>(result))
                << c.proc->name << ": " << (result ? "" : to_string(result.error()));
            if (result && w.seen) w.seen();
        };
        const Result<void> sent = clnt.call(rpc);
        EXPECT_TRUE(static_cast<bool>(sent)) << rpc.proc->name;
        if (!sent) return;
        EXPECT_TRUE(run_until([&] { return waiting.done; })) << rpc.proc->name;
    }
};

}  // namespace nfsrdma::testing
