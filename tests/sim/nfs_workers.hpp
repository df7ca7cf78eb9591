#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "nfs/client/client.hpp"
#include "nfs/client/read_file.hpp"
#include "nfs/client/write_file.hpp"

// Users of an NFS client that is to hide every fault: each of their calls must succeed.
namespace nfsrdma::test {

// Makes files, one after the other: guarded CREATE, UNSTABLE WRITEs and COMMITs, and reads each
// back.
class FileWorker {
  public:
    FileWorker(nfs::client::Client& client, const nfs::client::FileHandle& root, std::uint64_t seed,
               std::uint32_t files, std::uint32_t bytes_max);
    FileWorker(const FileWorker&) = delete;
    FileWorker& operator=(const FileWorker&) = delete;
    void start();
    bool finished() const { return left_ == 0 || !trouble.empty(); }
    bool idle() const { return !create_.pending() && !writer_.running() && !reader_.running(); }
    std::string trouble;
    std::uint64_t steps = 0;                                  // calls and files that went through
    std::map<std::string, std::vector<std::byte>> committed;  // durable, by the server's word

  private:
    static void on_created(nfs::client::Op& op) noexcept;
    static void on_room(nfs::client::FileWriter& writer,
                        nfs::client::FileWriter::Slot& slot) noexcept;
    static void on_written(nfs::client::FileWriter& writer) noexcept;
    static void on_data(nfs::client::FileReader& reader,
                        nfs::client::FileReader::Slot& slot) noexcept;
    static void on_read(nfs::client::FileReader& reader) noexcept;
    bool good(const nfs::client::Outcome& outcome, const char* what);
    void next();

    nfs::client::Client& client_;
    nfs::client::FileHandle root_;
    Prng prng_;
    const std::uint64_t seed_;
    std::uint32_t left_;
    const std::uint32_t bytes_max_;
    std::string name_;
    std::vector<std::byte> content_;
    std::uint64_t offset_ = 0, read_ = 0;
    nfs::client::FileHandle file_;
    nfs::client::CreateOp create_;
    nfs::client::FileWriter writer_;
    nfs::client::FileReader reader_;
};

// Changes names, each once: MKDIR, CREATE (guarded, exclusive), LINK, RENAME, SYMLINK, REMOVE,
// RMDIR.
class NameWorker {
  public:
    NameWorker(nfs::client::Client& client, const nfs::client::FileHandle& root, std::uint64_t seed,
               std::uint32_t rounds);
    NameWorker(const NameWorker&) = delete;
    NameWorker& operator=(const NameWorker&) = delete;
    void start() { next(); }
    bool finished() const { return round_ == rounds_ || !trouble.empty(); }
    bool idle() const { return running_ == nullptr; }
    std::string trouble;
    std::uint64_t steps = 0;
    std::vector<std::string> there, gone;  // names, by the server's word

  private:
    static void on_done(nfs::client::Op& op) noexcept;
    void next();
    void begin(nfs::client::Op& op, const char* what);
    std::string name(const char* kind) const;
    diropargs3 in_root(std::string& name) const { return {root_.view(), name.data()}; }

    nfs::client::Client& client_;
    nfs::client::FileHandle root_;
    const std::uint64_t seed_;
    const std::uint32_t rounds_;
    std::uint32_t round_ = 0, step_ = 0;
    nfs::client::Op* running_ = nullptr;
    const char* what_ = "";
    std::string directory_, file_, link_, renamed_, symlink_, text_ = "where/to";
    nfs::client::MkdirOp mkdir_;
    nfs::client::CreateOp create_;
    nfs::client::LinkOp link_op_;
    nfs::client::RenameOp rename_;
    nfs::client::SymlinkOp symlink_op_;
    nfs::client::RemoveOp remove_;
    nfs::client::RmdirOp rmdir_;
};

}  // namespace nfsrdma::test
