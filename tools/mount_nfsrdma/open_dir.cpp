#include "tools/mount_nfsrdma/open_dir.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/mount.hpp"
#include "tools/mount_nfsrdma/node.hpp"

namespace nfsrdma::mount {
namespace {

using nfs::client::Outcome;

constexpr std::uint32_t kEmptiesMax = 2;

bool is_dots(const char* name) noexcept {
    return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

Outcome bad_listing(const char* what) noexcept {
    return Outcome::failed(Error{Errc::bad_message, 0, what});
}

const fattr3* attributes_of(post_op_attr& told) noexcept {
    if (told.attributes_follow == FALSE) return nullptr;
    fattr3& attributes = told.post_op_attr_u.attributes;
    nfs::client::clean_type(attributes);
    return attributes.type != 0 ? &attributes : nullptr;
}

DirItem item_of(entryplus3& entry) noexcept {
    DirItem item{entry.name, entry.fileid, entry.cookie, attributes_of(entry.name_attributes),
                 nullptr};
    const nfs_fh3& handle = entry.name_handle.post_op_fh3_u.handle;
    if (entry.name_handle.handle_follows != FALSE && handle.data.data_len != 0)
        item.handle = &handle;
    return item;
}

DirItem item_of(entry3& entry) noexcept {
    return DirItem{entry.name, entry.fileid, entry.cookie, nullptr, nullptr};
}

// The server has no READDIRPLUS.
bool has_none(const Outcome& outcome) noexcept {
    if (outcome.rpc) return outcome.status == NFS3ERR_NOTSUPP;
    return outcome.rpc.error().code == Errc::refused &&
           outcome.rpc_status == sunrpc::RpcStatus::proc_unavail;
}

}  // namespace

OpenDir::OpenDir(Mount& mount, Node& node, nfs::client::Client& client, Caller opener)
    : mount_(mount), node_(node), client_(client), opener_(std::move(opener)) {
    for (Reply& reply : replies_) {
        reply.dir = this;
        reply.plus_op.user = reply.plain_op.user = &reply;
        reply.plus_op.done = reply.plain_op.done = on_answer;
        reply.plus_op.sys = reply.plain_op.sys = opener_.get();
    }
}

OpenDir::~OpenDir() {
    NR_ASSERT(!busy() && waiters_.empty());
}

bool OpenDir::busy() const noexcept {
    return std::any_of(replies_.begin(), replies_.end(),
                       [](const Reply& reply) { return reply.state == State::asked; });
}

// Those that we have made stand before the server's first.
std::uint64_t OpenDir::cookie_of(std::uint64_t offset) noexcept {
    return offset == kDot || offset == kDotDot ? 0 : offset;
}

OpenDir::Reply* OpenDir::reply_from(std::uint64_t cookie, State state) noexcept {
    for (Reply& reply : replies_)
        if (reply.state == state && reply.from == cookie && !reply.outdated) return &reply;
    return nullptr;
}

bool OpenDir::find(std::uint64_t offset, Place& place) noexcept {
    Reply* const first = reply_from(offset, State::here);
    if (first != nullptr && (offset != 0 || !first->used)) {
        place = {first, 0};
        return true;
    }
    if (offset == 0) return false;
    if (offset == kDot || offset == kDotDot) {
        // Also where the server's own stand in the place of ours, and nothing has that cookie.
        Reply* const start = reply_from(0, State::here);
        const std::size_t behind = offset == kDot ? 1 : 2;
        if (start != nullptr) place = {start, std::min(behind, start->items.size())};
        return start != nullptr;
    }
    for (Reply& reply : replies_) {
        if (reply.state != State::here) continue;
        if (offset == reply.last) {
            place = {&reply, reply.items.size()};
            return true;
        }
        // Mostly just behind where it was left, or not far before.
        const auto found = std::find_if(reply.items.rbegin(), reply.items.rend(),
                                        [&](const DirItem& item) { return item.cookie == offset; });
        if (found == reply.items.rend()) continue;
        place = {&reply, static_cast<std::size_t>(reply.items.rend() - found)};
        return true;
    }
    return false;
}

OpenDir::Where OpenDir::seek(std::uint64_t offset) noexcept {
    at_ = {};
    wanted_ = cookie_of(offset);
    Place place;
    if (!find(offset, place)) {
        if (offset == 0) rewind();
        return Where::later;
    }
    if (place.index == place.reply->items.size()) {
        if (place.reply->eof) return Where::end;
        wanted_ = place.reply->last;
        Reply* const next = reply_from(wanted_, State::here);
        if (next == nullptr) return Where::later;
        if (next->items.empty()) return Where::end;
        place = {next, 0};
    }
    at_ = place;
    return Where::here;
}

// A listing that starts again shows what has changed (rewinddir(3)): nothing of before is good.
void OpenDir::rewind() noexcept {
    for (Reply& reply : replies_) {
        if (reply.state == State::here) drop(reply);
        if (reply.state == State::asked && reply.from != 0) reply.outdated = true;
    }
}

const DirItem* OpenDir::item() const noexcept {
    NR_ASSERT(at_.reply != nullptr);
    return at_.index < at_.reply->items.size() ? &at_.reply->items[at_.index] : nullptr;
}

void OpenDir::advance() noexcept {
    const DirItem& given = at_.reply->items[at_.index++];
    at_.reply->used = true;
    given_cookie_ = given.cookie;
    given_name_ = given.name;
}

OpenDir::Belief OpenDir::belief() const noexcept {
    const Reply& reply = *at_.reply;
    const std::uint64_t limit = cache_range(mount_.options, NF3REG).min_ns;
    if (!reply.plus || mount_.now_ns() - reply.asked_ns >= limit) return Belief::none;
    if (node_.attributes.changed_since(reply.order)) return Belief::known_names;
    const bool same = reply.changes == OpenDirs::of(node_).changes();
    return same ? Belief::all : Belief::briefly;
}

std::uint64_t OpenDir::order() const noexcept {
    return at_.reply->order;
}

// Also where the kernel asks for names alone: entries without a type are looked up one by one by
// most who list a directory.
bool OpenDir::ask_plus() const noexcept {
    return mount_.options.rdirplus && mount_.limits.readdirplus;
}

OpenDir::Reply* OpenDir::room_for_reply(std::uint64_t cookie) noexcept {
    Reply* room_at = nullptr;
    for (Reply& reply : replies_) {
        if (reply.state == State::empty) return &reply;
        // Rather one that is not where the kernel is.
        if (reply.state == State::here && (room_at == nullptr || reply.last != cookie))
            room_at = &reply;
    }
    return room_at;
}

void OpenDir::wait(Waiter& waiter) noexcept {
    waiter.cookie_ = wanted_;
    waiters_.push_back(waiter);
    if (reply_from(wanted_, State::asked) != nullptr) return;
    // Without room two answers are on their way that nobody wants any more: the next one makes it.
    if (Reply* const reply = room_for_reply(wanted_)) ask(*reply, wanted_, ask_plus());
}

void OpenDir::stop_waiting(Waiter& waiter) noexcept {
    if (waiter.linked()) waiters_.erase(waiter);
}

bool OpenDir::wants_ahead() const noexcept {
    if (at_.reply == nullptr || at_.reply->eof) return false;
    return std::none_of(replies_.begin(), replies_.end(), [&](const Reply& reply) {
        return reply.state == State::asked ||
               (reply.state == State::here && reply.from == at_.reply->last);
    });
}

void OpenDir::ask_ahead() noexcept {
    const std::uint64_t cookie = at_.reply->last;
    for (Reply& reply : replies_) {
        if (&reply == at_.reply) continue;
        drop(reply);
        ask(reply, cookie, ask_plus());
        return;
    }
}

void OpenDir::drop(Reply& reply) noexcept {
    NR_ASSERT(reply.state != State::asked);
    reply.items.clear();
    reply.plus_op.free_results();
    reply.plain_op.free_results();
    reply.state = State::empty;
    if (at_.reply == &reply) at_ = {};
}

void OpenDir::ask(Reply& reply, std::uint64_t cookie, bool plus) noexcept {
    drop(reply);
    reply.state = State::asked;
    reply.from = cookie;
    reply.plus = plus;
    reply.used = reply.eof = reply.searching = reply.outdated = false;
    reply.empties = 0;
    if (cookie != chain_ || cookie == 0) {
        mark_ = cookie;
        since_mark_ = 0;
        next_mark_ = 1;
    }
    chain_ = cookie;
    send(reply, cookie);
}

void OpenDir::send(Reply& reply, std::uint64_t cookie) noexcept {
    reply.last = cookie;
    reply.order = mount_.next_order();
    reply.asked_ns = mount_.now_ns();
    if (cookie == 0) verifier_ = {};
    const std::uint32_t size = client_.sizes().directory;
    if (!reply.plus) {
        reply.plain_op.args.dir = node_.handle.view();
        reply.plain_op.args.cookie = cookie;
        std::memcpy(reply.plain_op.args.cookieverf, verifier_.data(), verifier_.size());
        reply.plain_op.args.count = size;
        client_.start(reply.plain_op);
        return;
    }
    reply.plus_op.args.dir = node_.handle.view();
    reply.plus_op.args.cookie = cookie;
    std::memcpy(reply.plus_op.args.cookieverf, verifier_.data(), verifier_.size());
    reply.plus_op.args.dircount = reply.plus_op.args.maxcount = size;
    client_.start(reply.plus_op);
}

void OpenDir::on_answer(nfs::client::Op& op) noexcept {
    Reply& reply = *static_cast<Reply*>(op.user);
    OpenDir& dir = *reply.dir;
    const std::lock_guard guard(dir.mount_.lock);
    dir.answered(reply);
}

void OpenDir::answered(Reply& reply) noexcept {
    bool again = false;
    const Outcome outcome = take(reply, again);
    if (again) {
        send(reply, reply.last);
        return;
    }
    reply.state = State::here;
    if (!outcome.ok() || reply.outdated) drop(reply);
    tell(reply, outcome);
    if (idle_ == nullptr || busy()) return;
    Waiter& waiter = *std::exchange(idle_, nullptr);
    waiter.ready(waiter, Outcome{});
}

void OpenDir::tell(const Reply& reply, const Outcome& outcome) noexcept {
    List<Waiter, Waiter> woken;
    woken.splice_back(waiters_);
    while (!woken.empty()) {
        Waiter& waiter = woken.pop_front();
        const bool its = waiter.cookie_ == reply.from && !reply.outdated;
        waiter.ready(waiter, its ? outcome : Outcome{});
    }
}

Outcome OpenDir::take(Reply& reply, bool& again) noexcept {
    nfs::client::Op& op = reply.plus ? static_cast<nfs::client::Op&>(reply.plus_op)
                                     : static_cast<nfs::client::Op&>(reply.plain_op);
    const Outcome outcome = op.outcome;
    if (reply.plus && has_none(outcome)) {
        mount_.limits.readdirplus = false;
        reply.plus = false;
        again = true;
        return outcome;
    }
    if (outcome.rpc && outcome.status == NFS3ERR_BAD_COOKIE && reply.last != 0) {
        if (reply.searching) return outcome;
        reply.searching = true;
        reply.lost = reply.last;
        reply.lost_name = given_cookie_ == reply.lost ? given_name_ : std::string();
        reply.last = 0;
        again = true;
        return outcome;
    }
    if (!outcome.ok()) return outcome;
    const bool any = reply.plus ? take_entries(reply, reply.plus_op.res.READDIRPLUS3res_u.resok)
                                : take_entries(reply, reply.plain_op.res.READDIR3res_u.resok);
    if (reply.eof && !reply.searching) return outcome;
    if (!any && !reply.eof) {
        again = ++reply.empties < kEmptiesMax;
        return again ? outcome : bad_listing("directory listing without entries or an end");
    }
    reply.empties = 0;
    if (!leads_on(reply)) return bad_listing("directory listing leads in circles");
    if (reply.searching) return keep_looking(reply, again);
    again = reply.items.empty();
    return outcome;
}

// The entries behind the lost one are those that were asked for.
Outcome OpenDir::keep_looking(Reply& reply, bool& again) noexcept {
    const auto found =
        std::find_if(reply.items.begin(), reply.items.end(), [&](const DirItem& item) {
            return reply.lost_name.empty() ? item.cookie == reply.lost
                                           : reply.lost_name == item.name;
        });
    if (found == reply.items.end()) {
        again = !reply.eof;
        return Outcome::failed(NFS3ERR_BAD_COOKIE);
    }
    reply.items.erase(reply.items.begin(), found + 1);
    reply.searching = false;
    again = reply.items.empty() && !reply.eof;
    return Outcome{};
}

// False: there were none at all.
template <class Ok>
bool OpenDir::take_entries(Reply& reply, Ok& ok) noexcept {
    reply.items.clear();
    const bool first = reply.last == 0;
    if (first) make_dots(reply);
    std::size_t count = 0;
    for (auto* entry = ok.reply.entries; entry != nullptr; entry = entry->nextentry) {
        const std::size_t number = count++;
        reply.last = entry->cookie;
        if (entry->name == nullptr) continue;
        const bool dots = is_dots(entry->name);
        if (first && dots) {
            // The server's own instead of ours, where they come first.
            const bool its_place = number < reply.items.size() &&
                                   (number == 0 || reply.items.front().cookie != kDot) &&
                                   std::strcmp(reply.items[number].name, entry->name) == 0;
            if (its_place) reply.items[number] = item_of(*entry);
        } else if (dots ? !made_dots_ : nfs::client::is_plain_name(entry->name)) {
            reply.items.push_back(item_of(*entry));
        }
    }
    if (first) made_dots_ = reply.items[1].cookie == kDotDot;
    std::memcpy(verifier_.data(), ok.cookieverf, verifier_.size());
    reply.eof = ok.reply.eof != FALSE;
    if (const fattr3* const own = attributes_of(ok.dir_attributes))
        (void)mount_.take(node_, *own, reply.order);
    reply.changes = OpenDirs::of(node_).changes();
    return count != 0;
}

// RFC 1813 s3.3.16 leaves it to the server whether it lists them; everybody expects them.
void OpenDir::make_dots(Reply& reply) {
    const std::uint64_t own = node_.attributes.now().fileid;
    const std::uint64_t parent =
        node_.names.empty() ? own : node_.names.front().parent->attributes.now().fileid;
    reply.items.push_back(DirItem{".", own, kDot, nullptr, nullptr});
    reply.items.push_back(DirItem{"..", parent, kDotDot, nullptr, nullptr});
}

bool OpenDir::leads_on(Reply& reply) noexcept {
    chain_ = reply.last;
    if (chain_ == mark_) return false;
    if (++since_mark_ == next_mark_) {
        mark_ = chain_;
        since_mark_ = 0;
        next_mark_ *= 2;
    }
    return true;
}

OpenDirs& OpenDirs::of(Node& node) {
    if (node.file == nullptr) node.file = std::make_unique<OpenDirs>();
    return static_cast<OpenDirs&>(*node.file);
}

OpenDir& OpenDirs::add(std::unique_ptr<OpenDir> dir) {
    dirs_.push_back(std::move(dir));
    return *dirs_.back();
}

std::unique_ptr<OpenDir> OpenDirs::remove(OpenDir& dir) noexcept {
    const auto found = std::find_if(dirs_.begin(), dirs_.end(),
                                    [&](const auto& one) { return one.get() == &dir; });
    NR_ASSERT(found != dirs_.end());
    std::unique_ptr<OpenDir> removed = std::move(*found);
    dirs_.erase(found);
    return removed;
}

// A directory has nothing unwritten.
bool OpenDirs::when_written(Waiter& /*waiter*/) noexcept {
    return true;
}

void OpenDirs::stop_waiting(Waiter& /*waiter*/) noexcept {}

}  // namespace nfsrdma::mount
