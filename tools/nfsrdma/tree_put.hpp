#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/copy_report.hpp"
#include "tools/nfsrdma/job_set.hpp"
#include "tools/nfsrdma/op_pool.hpp"
#include "tools/nfsrdma/put_job.hpp"
#include "tools/nfsrdma/tree_get.hpp"

namespace nfsrdma::tool {

// Copies local files and trees to the server.
class TreePutter {
  public:
    TreePutter(Calls& calls, const CopyOptions& options, Progress& progress, CopyReport& report);
    // The local `path` becomes `name` in `directory`; a local directory's content goes into
    // `directory` when `name` is empty.
    void put(const std::string& path, const nfs::client::FileHandle& directory,
             const std::string& name);
    // Waits for all, then gives directories their modes and times. False when anything failed; it
    // has been said.
    bool finish();

  private:
    struct Source {
        int at;
        std::string name;
        const std::string& path;  // for messages
        bool follow_link;
    };
    struct Made {
        nfs::client::FileHandle handle;
        struct stat attributes;
        std::string path;
    };
    struct Target {
        nfs::client::FileHandle directory;
        std::string name;
    };
    // A directory at the server that was asked for before its turn.
    struct Ahead {
        nfs::client::Outcome outcome;
        nfs::client::FileHandle handle;
        bool finished = false;
        std::list<Ahead>::iterator self;
    };
    // A local directory that the walk is in.
    struct Level {
        UniqueFd fd;
        std::vector<std::string> names;
        std::size_t next = 0;
        std::size_t path_size = 0;
        nfs::client::FileHandle remote;
        std::map<std::string, Ahead*> ahead;
    };
    using LinkPool = OpPool<nfs::client::SymlinkOp>;
    using MakePool = OpPool<nfs::client::MkdirOp>;
    // A link where something is already.
    struct LinkThere {
        nfs::client::FileHandle directory;
        std::string name, text, path;
        sattr3 attributes;
    };
    void failed(const std::string& place, const std::string& why);
    void failed(const std::string& place, const nfs::client::Outcome& outcome);
    bool stopped() const;
    void put_entry(const Source& source, const struct stat& st, const Target& target);
    void put_file(const Source& source, const Target& target);
    void put_link(const Source& source, const struct stat& st, const Target& target);
    void put_directory(const Source& source, const struct stat& st, const Target& target);
    void walk();
    void put_next();
    nfs::client::Outcome make_remote(const Target& target, nfs::client::FileHandle& made);
    nfs::client::Outcome ask_for(const Target& target, nfs::client::FileHandle& made);
    void make_ahead(Level& level, const std::vector<std::string>& names);
    void on_link(LinkPool::Slot& slot);
    void replace_link(LinkThere& link);
    void set_directories();
    void on_done(const PutJob& job);

    Calls& calls_;
    const CopyOptions options_;
    CopyReport& report_;
    JobSet<PutJob> jobs_;
    std::list<Ahead> ahead_;
    std::vector<LinkThere> links_there_;
    LinkPool links_;
    MakePool makes_;
    std::vector<Level> levels_;
    std::string path_;  // of what the walk is at
    std::vector<Made> directories_;
    bool hopeless_ = false;  // the server is full, or lets nothing be written
};

}  // namespace nfsrdma::tool
