#include "nfs/client/read_dir.hpp"

#include <algorithm>
#include <cstring>

namespace nfsrdma::nfs::client {
namespace {

DirEntry to_entry(entryplus3& from) noexcept {
    DirEntry entry;
    entry.name = from.name;
    entry.fileid = from.fileid;
    if (from.name_attributes.attributes_follow != FALSE) {
        clean_type(from.name_attributes.post_op_attr_u.attributes);
        entry.attributes = &from.name_attributes.post_op_attr_u.attributes;
    }
    // An entry whose handle is none counts as one without a handle.
    if (from.name_handle.handle_follows != FALSE) {
        (void)entry.handle.assign(from.name_handle.post_op_fh3_u.handle);
    }
    return entry;
}

DirEntry to_entry(entry3& from) noexcept {
    DirEntry entry;
    entry.name = from.name;
    entry.fileid = from.fileid;
    return entry;
}

}  // namespace

DirReader::DirReader(Client& client) noexcept : client_(client) {
    plus_.user = plain_.user = this;
    plus_.done = on_plus;
    plain_.done = on_plain;
}

void DirReader::start(const FileHandle& directory, What what) noexcept {
    NR_ASSERT(on_entry != nullptr && done != nullptr);
    directory_ = directory;
    use_plain_ = what == What::names;
    cookie_ = mark_ = since_mark_ = 0;
    next_mark_ = 1;
    verifier_ = {};
    empty_replies_ = 0;
    entries_ = replies_ = 0;
    ask();
}

void DirReader::ask() noexcept {
    const std::uint32_t size = client_.sizes().directory;
    if (use_plain_) {
        plain_.args.dir = directory_.view();
        plain_.args.cookie = cookie_;
        std::memcpy(plain_.args.cookieverf, verifier_.data(), verifier_.size());
        plain_.args.count = size;
        client_.start(plain_);
        return;
    }
    plus_.args.dir = directory_.view();
    plus_.args.cookie = cookie_;
    std::memcpy(plus_.args.cookieverf, verifier_.data(), verifier_.size());
    plus_.args.dircount = plus_.args.maxcount = size;
    client_.start(plus_);
}

void DirReader::on_plus(Op& op) noexcept {
    DirReader& reader = *static_cast<DirReader*>(op.user);
    const Outcome& outcome = op.outcome;
    if (outcome.rpc && outcome.status == NFS3ERR_NOTSUPP && reader.cookie_ == 0) {
        reader.use_plain_ = true;
        reader.ask();
    } else if (!outcome.ok()) {
        reader.finish(outcome);
    } else {
        reader.take(reader.plus_.res.READDIRPLUS3res_u.resok);
    }
}

void DirReader::on_plain(Op& op) noexcept {
    DirReader& reader = *static_cast<DirReader*>(op.user);
    if (!op.outcome.ok()) {
        reader.finish(op.outcome);
    } else {
        reader.take(reader.plain_.res.READDIR3res_u.resok);
    }
}

template <class Ok>
void DirReader::take(Ok& ok) noexcept {
    ++replies_;
    bool any = false;
    for (auto* entry = ok.reply.entries; entry != nullptr; entry = entry->nextentry) {
        any = true;
        ++entries_;
        cookie_ = entry->cookie;
        if (entry->name == nullptr) continue;
        if (!on_entry(*this, to_entry(*entry))) {
            finish(Outcome::failed(Error{Errc::closed, 0, "stopped"}));
            return;
        }
    }
    std::memcpy(verifier_.data(), ok.cookieverf, verifier_.size());
    if (ok.reply.eof != FALSE) {
        finish(Outcome{});
        return;
    }
    if (!advances(any)) {
        finish(Outcome::failed(Error{Errc::bad_message, 0, "directory listing does not advance"}));
        return;
    }
    if (entries_ > entries_max) {
        finish(Outcome::failed(Error{Errc::bad_message, 0, "directory listing without end"}));
        return;
    }
    ask();
}

// A server that has neither entries nor the end to tell (case B77), or that sends us back to where
// we have been, would keep us for ever. It gets one more chance in the first case.
bool DirReader::advances(bool any) noexcept {
    empty_replies_ = any ? 0 : empty_replies_ + 1;
    if (!any) return empty_replies_ < 2;
    if (cookie_ == mark_) return false;
    if (++since_mark_ == next_mark_) {
        mark_ = cookie_;
        since_mark_ = 0;
        next_mark_ *= 2;
    }
    return true;
}

void DirReader::finish(const Outcome& why) noexcept {
    outcome = why;
    plus_.free_results();
    plain_.free_results();
    done(*this);
}

}  // namespace nfsrdma::nfs::client
