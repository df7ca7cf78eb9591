#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/mount_nfsrdma/job.hpp"
#include "tools/mount_nfsrdma/ops_names.hpp"

// Files that are unlinked while they are open here: NFSv3 knows no open files, so they stay under a
// hidden name until their last close. All with Mount::lock held.
namespace nfsrdma::mount {

// ".nfs", 16 hexadecimal digits of the fileid, 8 of a counter.
std::string hidden_name(std::uint64_t fileid, std::uint32_t counter);
// `name` in `directory` is the hidden one of `node`.
bool is_hidden_as(const Node& node, const Node& directory, std::string_view name) noexcept;
// Unlinking the name that `node` has now would take away what is open here.
bool must_hide(const Node& node) noexcept;

// Whoever opens it now waits: what is under way may take it away, and has not seen it open.
bool may_be_going(const Node& node) noexcept;

// An unlink, or a rename over a node, without a hidden name. Pins it, from begin to its own end.
class Removing {
  public:
    Removing() = default;
    ~Removing() { end(); }
    Removing(const Removing&) = delete;
    Removing& operator=(const Removing&) = delete;
    void begin(Mount& mount, Node& node) noexcept;
    void end() noexcept;  // once or more

  private:
    NodePin node_;
};

// At the last release of a node, on the thread of `at`: removes its hidden name, if it has one, as
// the user who unlinked it. What cannot be removed stays known to the node, for the end of the
// mount.
void finish_silly(Mount& mount, Worker& at, Node& node) noexcept;
// It has an ordinary name again, or none at all. May end the node.
void reveal(Mount& mount, Node& node) noexcept;

// A job that first gives something that is open a hidden name: hide(), then hidden() or
// not_hidden() runs; after hidden(), keep_hidden() makes that its state. Where the outcome is not
// known, that has been done before not_hidden().
class HidingJob : public Job {
  protected:
    using Job::Job;
    ~HidingJob() override = default;
    // How. `move`: the ordinary name is gone. `link`: it is still there, so that what is renamed
    // over it takes its place in one step; where the server does not allow that, it is moved.
    enum class Way : std::uint8_t { none, move, link };
    // `name` lives until then.
    void hide(Node& directory, std::string& name, Node& victim, Way way) noexcept;
    virtual void hidden() noexcept = 0;
    virtual void not_hidden(int error) noexcept = 0;
    // `in_doubt`: nobody knows whether it has the name. Whatever it is, it is removed at the last
    // close; until then an unlink hides it once more.
    void keep_hidden(bool in_doubt = false) noexcept;
    // Of what hidden() was told of: gives the ordinary name back, and then undone() runs.
    void undo() noexcept;
    virtual void undone() noexcept {}
    Way way() const noexcept { return done_; }

  private:
    static constexpr std::uint32_t kTriesMax = 64;
    void try_next() noexcept;
    void linked() noexcept;
    void looked_up() noexcept;
    void rename(std::string& from, std::string& to) noexcept;
    void moved() noexcept;
    void moved_back() noexcept;
    void unlinked() noexcept;
    void take_rename() noexcept;
    bool keep_one(Node& victim, bool in_doubt) noexcept;

    Node* directory_ = nullptr;
    std::string* name_ = nullptr;
    NodePin directory_pin_, victim_;
    std::string hidden_;
    Way wanted_ = Way::none, done_ = Way::none;
    std::uint32_t tries_ = 0;
    nfs::client::LinkOp link_;
    nfs::client::LookupOp lookup_;
    nfs::client::RenameOp rename_;
    nfs::client::RemoveOp remove_;
    Changing changing_directory_, changing_victim_;
};

}  // namespace nfsrdma::mount
