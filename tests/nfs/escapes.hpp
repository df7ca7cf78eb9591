#pragma once
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <tuple>
#include <vector>

#ifdef NR_ESCAPES_OVER_RDMA
#include "tests/e2e/wire_world.hpp"
#else
#include "tests/nfs/nfs_world.hpp"
#endif

// Issue 3: no way out of an export. A server whose export stands beside something that is not
// exported, and the ways in which a client, or somebody who renames things on the server, tries to
// reach that. The attempts are made twice: in one process, and (tests/e2e, NR_ESCAPES_OVER_RDMA)
// against a running nfsrdmad over RDMA.
namespace nfsrdma::testing {

namespace fs = std::filesystem;

#ifdef NR_ESCAPES_OVER_RDMA
using EscapeWorld = WireWorld;
#else
class EscapeWorld : public NfsWorld {
  public:
    explicit EscapeWorld(bool kernel_handles)
        : NfsWorld(Backend::posix, {}, {}, options(kernel_handles)) {}
    const nfs::HandleKey& key() const { return server.handle_key(); }
    void settle() {}  // recheck_ns
    // Also the directory `path`, by the same name; the handle of its root.
    Handle export_also(const std::string& path) {
        auto made = nfs::VfsPosix::create(path, options(true));
        NR_ASSERT(static_cast<bool>(made));
        const nfs::NodeId id = (*made)->root();
        NR_ASSERT(static_cast<bool>(server.add_export(path, *std::move(made))));
        nfs::FhBytes bytes = nfs::encode_fh(key(), {nfs::export_id_of(path), id});
        return Handle::of(nfs::to_fh3(bytes));
    }

  private:
    static nfs::VfsPosixOptions options(bool kernel_handles) {
        nfs::VfsPosixOptions out;
        out.kernel_handles = kernel_handles;
        out.open_files = 64;
        out.recheck_ns = 0;  // what the server takes for granted for a moment is no escape
        return out;
    }
};
#endif

class Escape {
  public:
    explicit Escape(bool kernel_handles) : w(kernel_handles) {
        fs::create_directories(outside.path() + "/dir/deep");
        for (const char* name : {"secret", "dir/file", "dir/deep/file"})
            std::ofstream(out(name)) << "secret";
        fs::create_directories(in("dir/deep"));
        for (const char* name : {"file", "spare", "dir/file", "dir/deep/file"})
            std::ofstream(in(name)) << "public";
        fs::create_symlink(outside.path() + "/secret", in("to_file"));
        fs::create_symlink(outside.path() + "/dir", in("to_dir"));
        fs::create_symlink(outside.path() + "/none", in("to_none"));
        sealed_ = snapshot();
    }

    std::string in(const std::string& name) const { return w.dir.path() + "/" + name; }
    std::string out(const std::string& name) const { return outside.path() + "/" + name; }
    // What is outside now is what has to stay: the attempt moved it there itself.
    void seal() {
        w.settle();
        sealed_ = snapshot();
    }
    void expect_untouched() const { EXPECT_EQ(snapshot(), sealed_); }

    // The procedures' answers.
    nfsstat3 lookup(const Handle& dir, const std::string& name) {
        return w.lookup(dir, name)->status;
    }
    nfsstat3 getattr(const Handle& object) { return w.getattr(object)->status; }
    nfsstat3 create(const Handle& dir, const std::string& name, createmode3 mode = UNCHECKED) {
        return w.create(dir, name, mode)->status;
    }
    nfsstat3 truncate_by_create(const Handle& dir, const std::string& name) {
        CREATE3args args{};
        args.where = at(dir, name);
        args.how.createhow3_u.obj_attributes.size.set_it = TRUE;
        return w.call<CREATE3args, CREATE3res>(NFSPROC3_CREATE, args)->status;
    }
    nfsstat3 mkdir(const Handle& dir, const std::string& name) {
        MKDIR3args args{};
        args.where = at(dir, name);
        return w.call<MKDIR3args, MKDIR3res>(NFSPROC3_MKDIR, args)->status;
    }
    nfsstat3 symlink(const Handle& dir, const std::string& name) {
        return w.symlink(dir, name, "/")->status;
    }
    nfsstat3 mknod(const Handle& dir, const std::string& name, ftype3 type = NF3FIFO) {
        MKNOD3args args{};
        args.where = at(dir, name);
        args.what.type = type;
        if (type == NF3CHR) args.what.mknoddata3_u.device.spec = {1, 3};
        return w.call<MKNOD3args, MKNOD3res>(NFSPROC3_MKNOD, args)->status;
    }
    nfsstat3 remove(const Handle& dir, const std::string& name) {
        return w.remove(dir, name)->status;
    }
    nfsstat3 rmdir(const Handle& dir, const std::string& name) {
        return w.rmdir(dir, name)->status;
    }
    nfsstat3 rename(const Handle& from, const std::string& name, const Handle& to,
                    const std::string& new_name) {
        return w.rename(from, name, to, new_name)->status;
    }
    nfsstat3 link(const Handle& file, const Handle& dir, const std::string& name) {
        return w.link(file, dir, name)->status;
    }
    nfsstat3 read(const Handle& file) {
        const ReadReply reply = w.read(file, 0, 100);
        EXPECT_EQ(reply.data.find("secret"), reply.data.npos);
        return reply.status;
    }
    nfsstat3 write(const Handle& file) { return w.write(file, 0, "written", FILE_SYNC)->status; }
    nfsstat3 commit(const Handle& file) {
        return w.call<COMMIT3args, COMMIT3res>(NFSPROC3_COMMIT, {file.fh(), 0, 0})->status;
    }
    nfsstat3 access(const Handle& object) {
        return w.call<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {object.fh(), 0x3f})->status;
    }
    nfsstat3 readlink(const Handle& object) {
        return w.call<READLINK3args, READLINK3res>(NFSPROC3_READLINK, {object.fh()})->status;
    }
    nfsstat3 chmod(const Handle& object) {
        sattr3 set{};
        set.mode.set_it = TRUE;
        set.mode.set_mode3_u.mode = 0777;
        return w.setattr(object, set)->status;
    }
    nfsstat3 touch(const Handle& object) {
        sattr3 set{};
        set.mtime.set_it = SET_TO_CLIENT_TIME;
        set.mtime.set_mtime_u.mtime = {1, 2};
        return w.setattr(object, set)->status;
    }
    nfsstat3 truncate(const Handle& object) {
        sattr3 set{};
        set.size.set_it = TRUE;
        return w.setattr(object, set)->status;
    }
    nfsstat3 readdir(const Handle& dir) { return w.readdir(dir, 0, 8192).status; }
    nfsstat3 readdirplus(const Handle& dir) { return w.readdirplus(dir, 0, 8192, 32768).status; }
    nfsstat3 statfs(const Handle& object) {
        return w.call<FSSTAT3args, FSSTAT3res>(NFSPROC3_FSSTAT, {object.fh()})->status;
    }
    mountstat3 mount(const std::string& path) {
        return w.call_mount<mountargs3, mountres3>(MOUNTPROC3_MNT, {text(path)})->fhs_status;
    }

    // Every procedure that takes a handle answers with `status`.
    void expect_all(const Handle& object, nfsstat3 status) { expect_all(object, status, status); }
    // `across`: what takes a handle of /export as well answers so.
    void expect_all(const Handle& object, nfsstat3 status, nfsstat3 across) {
        const Procedures alone = {
            {"GETATTR", [&] { return getattr(object); }},
            {"SETATTR mode", [&] { return chmod(object); }},
            {"SETATTR times", [&] { return touch(object); }},
            {"SETATTR size", [&] { return truncate(object); }},
            {"LOOKUP", [&] { return lookup(object, "file"); }},
            {"LOOKUP ..", [&] { return lookup(object, ".."); }},
            {"ACCESS", [&] { return access(object); }},
            {"READLINK", [&] { return readlink(object); }},
            {"READ", [&] { return read(object); }},
            {"WRITE", [&] { return write(object); }},
            {"CREATE", [&] { return create(object, "new"); }},
            {"MKDIR", [&] { return mkdir(object, "new"); }},
            {"SYMLINK", [&] { return symlink(object, "new"); }},
            {"MKNOD", [&] { return mknod(object, "new"); }},
            {"REMOVE", [&] { return remove(object, "file"); }},
            {"RMDIR", [&] { return rmdir(object, "deep"); }},
            {"READDIR", [&] { return readdir(object); }},
            {"READDIRPLUS", [&] { return readdirplus(object); }},
            {"FSSTAT", [&] { return statfs(object); }},
            {"COMMIT", [&] { return commit(object); }},
        };
        const Procedures with_another = {
            {"RENAME from", [&] { return rename(object, "file", w.root, "stolen"); }},
            {"RENAME to", [&] { return rename(w.root, "spare", object, "smuggled"); }},
            {"LINK to", [&] { return link(w.find(w.root, "spare"), object, "new"); }},
            {"LINK of", [&] { return link(object, w.root, "stolen"); }},
        };
        for (const auto& [name, ask] : alone)
            EXPECT_EQ(patiently(ask), status) << name;
        for (const auto& [name, ask] : with_another)
            EXPECT_EQ(patiently(ask), across) << name;
        EXPECT_EQ(lookup(w.root, "stolen"), NFS3ERR_NOENT);
    }

    // Everything that the server keeps open is closed.
    void push_out() {
        fs::create_directory(in("many"));
        const Handle many = w.find(w.root, "many");
        for (int i = 0; i < 200; ++i) {
            std::ofstream(in("many/" + std::to_string(i))) << i;
            EXPECT_EQ(getattr(w.find(many, std::to_string(i))), NFS3_OK);
        }
        fs::remove_all(in("many"));
        w.settle();
    }
    // A handle as this server would sign it.
    Handle signed_handle(const nfs::FhFields& fields) {
        nfs::FhBytes bytes = nfs::encode_fh(w.key(), fields);
        return Handle::of(nfs::to_fh3(bytes));
    }
    nfs::FhFields fields_of(const Handle& handle) {
        nfs::FhFields fields;
        EXPECT_TRUE(nfs::decode_fh(w.key(), nfs::bytes_of(handle.fh()), fields));
        return fields;
    }

    EscapeWorld w;
    const TempDir outside;

  private:
    using Procedures = std::vector<std::pair<const char*, std::function<nfsstat3()>>>;
    // As clients do: the system may be short of memory for a moment.
    static nfsstat3 patiently(const std::function<nfsstat3()>& ask) {
        nfsstat3 status = ask();
        for (int i = 0; i < 50 && status == NFS3ERR_JUKEBOX; ++i)
            status = ask();
        return status;
    }
    // Path -> what it is like, whole.
    std::map<std::string, std::string> snapshot() const {
        std::map<std::string, std::string> out;
        const auto add = [&out](const std::string& path) {
            struct stat st {};
            EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
            std::ostringstream text;
            text << std::oct << st.st_mode << std::dec << ' ' << st.st_nlink << ' ' << st.st_uid
                 << ' ' << st.st_mtim.tv_sec << '.' << st.st_mtim.tv_nsec;
            if (S_ISREG(st.st_mode)) text << ' ' << std::ifstream(path).rdbuf();
            out[path] = text.str();
        };
        add(outside.path());
        for (const auto& entry : fs::recursive_directory_iterator(outside.path()))
            add(entry.path().string());
        return out;
    }
    std::map<std::string, std::string> sealed_;
};

// One kind of attempt. Whatever is answered, nothing outside may have been read or touched; where
// the answer matters the row says which it is.
struct EscapeRow {
    const char* name;
    void (*attempt)(Escape& e);
};
// By the kernel's handles, or by the database.
using EscapeCase = std::tuple<bool, EscapeRow>;

inline void PrintTo(const EscapeRow& row, std::ostream* out) {
    *out << row.name;
}
inline std::string name_of(const ::testing::TestParamInfo<EscapeCase>& param_info) {
    return std::string(std::get<1>(param_info.param).name) +
           (std::get<0>(param_info.param) ? "_Kernel" : "_Database");
}
inline void expect_no_escape(const EscapeCase& escape) {
    const auto& [kernel_handles, row] = escape;
    Escape e(kernel_handles);
    row.attempt(e);
    e.expect_untouched();
}

#define NR_ESCAPES(Kind, Suite)                                                                 \
    INSTANTIATE_TEST_SUITE_P(                                                                   \
        Kind, Suite, ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(k##Kind##Rows)), \
        name_of)

}  // namespace nfsrdma::testing
