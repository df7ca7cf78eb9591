#include "nfs/client/walk.hpp"

#include <algorithm>

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint32_t kLinksMax = 40;  // as Linux
constexpr std::size_t kComponentsMax =
    4096;  // a hostile server's links may not grow the path for ever

}  // namespace

PathWalk::PathWalk(Client& client) noexcept : client_(client) {
    lookup_.user = getattr_.user = readlink_.user = this;
    lookup_.done = on_lookup;
    getattr_.done = on_getattr;
    readlink_.done = on_readlink;
}

void PathWalk::start(const Options& options) {
    NR_ASSERT(done != nullptr);
    options_ = options;
    outcome = Outcome{};
    object = FileHandle{};
    done_steps_.clear();
    left_.clear();
    last_name_.clear();
    failed_at_.clear();
    links_ = 0;
    at_end_ = false;
    push_path(options.path);
    if (options_.parent_only && !left_.empty()) {
        last_name_ = left_.front();
        left_.erase(left_.begin());
    }
    advance();
}

// In front of what is still to go.
void PathWalk::push_path(std::string_view path) {
    std::vector<std::string> parts;
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
        if (!part.empty() && part != ".") parts.emplace_back(part);
    }
    left_.insert(left_.end(), parts.rbegin(), parts.rend());
}

void PathWalk::advance() noexcept {
    if (options_.parent_only && (last_name_.empty() || last_name_ == "..")) {
        failed_at_ = options_.path;
        finish(Outcome::failed(NFS3ERR_INVAL));
        return;
    }
    while (!left_.empty() && left_.back() == "..") {
        left_.pop_back();
        if (!done_steps_.empty()) done_steps_.pop_back();
    }
    if (left_.empty()) {
        at_end_ = true;
        getattr_.args.object = here().view();
        client_.start(getattr_);
        return;
    }
    lookup_.args.what.dir = here().view();
    lookup_.args.what.name = left_.back().data();
    client_.start(lookup_);
}

void PathWalk::on_lookup(Op& op) noexcept {
    PathWalk& walk = *static_cast<PathWalk*>(op.user);
    if (!op.outcome.ok()) {
        walk.finish(op.outcome);
        return;
    }
    walk.done_steps_.push_back({std::move(walk.left_.back()), walk.lookup_.object});
    walk.left_.pop_back();
    if (const fattr3* attr = walk.lookup_.attributes(); attr != nullptr) {
        walk.arrived(*attr);
        return;
    }
    walk.getattr_.args.object = walk.here().view();
    walk.client_.start(walk.getattr_);
}

void PathWalk::on_getattr(Op& op) noexcept {
    PathWalk& walk = *static_cast<PathWalk*>(op.user);
    if (!op.outcome.ok()) {
        walk.finish(op.outcome);
        return;
    }
    walk.arrived(walk.getattr_.res.GETATTR3res_u.resok.obj_attributes);
}

void PathWalk::arrived(const fattr3& attr) noexcept {
    const bool last = left_.empty();
    const bool follows = !last || options_.follow_last || options_.parent_only;
    if (attr.type == NF3LNK && follows && !at_end_) {
        if (++links_ > kLinksMax) {
            finish(Outcome::failed(Error{Errc::bad_message, 0, "too many symbolic links"}));
            return;
        }
        readlink_.args.symlink = here().view();
        client_.start(readlink_);
        return;
    }
    if (!last) {
        advance();
        return;
    }
    if (options_.parent_only && attr.type != NF3DIR) {
        finish(Outcome::failed(NFS3ERR_NOTDIR));
        return;
    }
    object = here();
    attributes = attr;
    finish(Outcome{});
}

void PathWalk::on_readlink(Op& op) noexcept {
    PathWalk& walk = *static_cast<PathWalk*>(op.user);
    if (!op.outcome.ok()) {
        walk.finish(op.outcome);
        return;
    }
    const char* target = walk.readlink_.res.READLINK3res_u.resok.data;
    walk.follow(target == nullptr ? std::string_view{} : std::string_view(target));
}

void PathWalk::follow(std::string_view target) {
    if (target.empty() || target.front() == '/') {
        // What an absolute target means is known where the export is mounted, and here nothing is.
        finish(Outcome::failed(Error{Errc::unsupported, 0, "absolute symbolic link"}));
        return;
    }
    done_steps_.pop_back();
    push_path(target);
    if (left_.size() > kComponentsMax) {
        finish(Outcome::failed(NFS3ERR_NAMETOOLONG));
        return;
    }
    advance();
}

void PathWalk::finish(const Outcome& why) noexcept {
    outcome = why;
    if (!why.ok() && failed_at_.empty()) {
        for (const Step& step : done_steps_)
            failed_at_ += "/" + step.name;
        if (!left_.empty() && left_.back() != "..") failed_at_ += "/" + left_.back();
    }
    readlink_.free_results();
    done(*this);
}

}  // namespace nfsrdma::nfs::client
