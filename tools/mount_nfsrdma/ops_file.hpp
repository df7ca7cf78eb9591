#pragma once
#include "nfs/client/client.hpp"
#include "tools/mount_nfsrdma/file_data.hpp"
#include "tools/mount_nfsrdma/job.hpp"

// What the jobs about open files have in common.
namespace nfsrdma::mount {

// Which rights of ACCESS an open(2) with these flags needs: any of `one_of`, and all of `all`.
struct RightsWanted {
    std::uint32_t one_of = 0, all = 0;
    bool granted(std::uint32_t rights) const noexcept {
        return (one_of == 0 || (rights & one_of) != 0) && (rights & all) == all;
    }
    std::uint32_t asked() const noexcept { return one_of | all; }
};
RightsWanted rights_wanted(int flags) noexcept;
bool is_writable(int flags) noexcept;
// Where a write goes that the kernel, with its `flags` of O_*, believes to belong at `at`: with
// O_APPEND, to the end of what is known to be there. Not with O_DIRECT: then parts of one write,
// and many of them, are under way together, and each has its own place.
std::uint64_t append_offset(std::uint64_t at, std::uint64_t size, int flags) noexcept;

OpenFile& open_file(const fuse_file_info& info) noexcept;
// Makes an open file of `node`, whose opens are counted already, and tells the kernel how to keep
// its pages.
void open_node(Mount& mount, Worker& at, Node& node, const Caller& who, fuse_file_info& info);
// One open less, which never was, or is over.
void close_node(Mount& mount, Worker& at, Node& node) noexcept;

// A request about an open file; done on its home loop.
class FileJob : public Job {
  public:
    FileJob(Worker& at, fuse_req_t request, const fuse_file_info& info)
        : Job(at, request), file_(open_file(info)) {}

  protected:
    // False: start() runs again, there.
    bool at_home() noexcept;
    OpenFile& file() noexcept { return file_; }
    FileData& data() noexcept { return file_.data; }
    Node& node() noexcept { return file_.data.node(); }

  private:
    OpenFile& file_;
};

// ops_file_open.cpp: open, create, release; ops_file_sync.cpp: flush, fsync.
void add_open_operations(fuse_lowlevel_ops& ops) noexcept;
void add_sync_operations(fuse_lowlevel_ops& ops) noexcept;

}  // namespace nfsrdma::mount
