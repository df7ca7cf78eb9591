#include "tools/mount_nfsrdma/notifier.hpp"

#include <string>
#include <vector>

#include "tools/mount_nfsrdma/mount.hpp"

namespace nfsrdma::mount {
namespace {

// What one look at a node found to be told.
struct News {
    std::uint64_t ino = 0;
    bool data = false, attributes = false;
    std::vector<std::string> names;
};

News take_news(Node& node) {
    News news;
    news.ino = node.ino;
    news.data = std::exchange(node.invalidate_data, false);
    news.attributes = std::exchange(node.invalidate_attributes, false);
    if (std::exchange(node.expire_names, false)) {
        news.names.reserve(node.children.size());
        for (const Name& name : node.children)
            news.names.push_back(name.text);
    }
    return news;
}

void tell(fuse_session* session, const News& news) {
    // Offset -1 leaves the pages alone.
    if (news.data || news.attributes)
        (void)fuse_lowlevel_notify_inval_inode(session, news.ino, news.data ? 0 : -1, 0);
    for (const std::string& name : news.names) {
        if (fuse_lowlevel_notify_expire_entry(session, news.ino, name.data(), name.size(),
                                              FUSE_LL_EXPIRE_ONLY) == -ENOSYS)
            (void)fuse_lowlevel_notify_inval_entry(session, news.ino, name.data(), name.size());
    }
}

}  // namespace

Notifier::~Notifier() {
    stop();
}

void Notifier::start(fuse_session* session) {
    session_ = session;
    thread_ = std::thread([this] { run(); });
}

void Notifier::stop() noexcept {
    {
        const std::lock_guard guard(mount_.lock);
        stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Notifier::add(Node& node) {
    if (node.queued || stopping_) return;
    node.queued = true;
    queue_.push_back(node.ino);
    wake_.notify_one();
}

void Notifier::drop(Node& node) noexcept {
    if (!node.queued) return;
    node.queued = false;
    std::erase(queue_, node.ino);
}

void Notifier::tell_attributes(const Node& node) noexcept {
    (void)fuse_lowlevel_notify_inval_inode(session_, node.ino, -1, 0);
}

void Notifier::run() {
    std::unique_lock guard(mount_.lock);
    for (;;) {
        wake_.wait(guard, [this] { return stopping_ || !queue_.empty(); });
        if (stopping_) return;
        Node* const node = mount_.nodes.at(queue_.front());
        queue_.pop_front();
        if (node == nullptr) continue;
        node->queued = false;
        const News news = take_news(*node);
        ++told_;
        guard.unlock();
        tell(session_, news);
        guard.lock();
    }
}

}  // namespace nfsrdma::mount
