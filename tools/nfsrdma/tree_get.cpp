#include "tools/nfsrdma/tree_get.hpp"

#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

using nfs::client::Outcome;

TreeGetter::TreeGetter(Calls& calls, const CopyOptions& options, Progress& progress)
    : calls_(calls),
      options_(options),
      jobs_(calls, options.jobs, options.depth, progress,
            [this](const std::string& label, const Outcome& outcome) {
                trouble(label, to_string(outcome));
            }) {}

void TreeGetter::trouble(const std::string& place, const std::string& what) {
    failed_ = true;
    if (!calls_.interrupted()) complain(place, what);
}

void TreeGetter::get(const Url& url, int at, const std::string& name, const std::string& path) {
    const Found found = calls_.walk(url, true);
    if (!found.outcome.ok()) {
        trouble(url.text(), to_string(found.outcome));
        return;
    }
    if (found.attributes.type == NF3DIR && !options_.recursive) {
        trouble(url.text(), "is a directory; get -r copies it with all that is in it");
        return;
    }
    get_entry(Entry{"", found.attributes, found.handle, true}, Place{at, name, path}, 0);
}

void TreeGetter::get_entry(const Entry& entry, const Place& place, std::uint32_t depth) {
    switch (entry.attributes.type) {
        case NF3DIR:
            get_directory(entry, place, depth);
            return;
        case NF3REG:
            get_file(entry, place);
            return;
        case NF3LNK:
            get_link(entry, place);
            return;
        case NF3BLK:
        case NF3CHR:
        case NF3SOCK:
        case NF3FIFO:
            break;
    }
    complain(place.path, std::string("left out: it is a ") + type_text(entry.attributes.type));
}

void TreeGetter::get_file(const Entry& entry, const Place& place) {
    Result<UniqueFd> fd = create_file(place.at, place.name);
    if (!fd) {
        trouble(place.path, errno_text(fd.error().sys));
        return;
    }
    GetJob::Task task;
    task.file = entry.handle;
    task.attributes = entry.attributes;
    task.fd = *std::move(fd);
    task.label = place.path;
    jobs_.start(std::move(task));
}

void TreeGetter::get_link(const Entry& entry, const Place& place) {
    nfs::client::ReadlinkOp op;
    op.args.symlink = entry.handle.view();
    const Outcome outcome = calls_.run(op);
    const char* const target = outcome.ok() ? op.res.READLINK3res_u.resok.data : nullptr;
    if (target == nullptr) {
        trouble(place.path, to_string(outcome));
        return;
    }
    const Result<void> made = make_symlink(place.at, place.name, target, entry.attributes.mtime);
    if (!made) trouble(place.path, errno_text(made.error().sys));
}

void TreeGetter::get_directory(const Entry& entry, const Place& place, std::uint32_t depth) {
    if (depth > kTreeDepthMax) {
        trouble(place.path, "the tree is too deep");
        return;
    }
    Result<UniqueFd> fd = make_directory(place.at, place.name);
    if (!fd) {
        trouble(place.path, errno_text(fd.error().sys));
        return;
    }
    if (depth == 0) top_ = place.at;
    names_.push_back(place.name);
    directories_.push_back({top_, names_, place.path, entry.attributes});
    get_below(entry, fd->get(), place.path, depth);
    // Files are open by now: their jobs do without this descriptor.
    names_.pop_back();
}

void TreeGetter::get_below(const Entry& entry, int directory, const std::string& path,
                           std::uint32_t depth) {
    std::vector<Entry> entries;
    const Outcome outcome = calls_.list(entry.handle, entries);
    if (!outcome.ok()) trouble(path, to_string(outcome));
    for (const Entry& below : entries) {
        if (calls_.interrupted() || !calls_.connected()) {
            failed_ = true;
            return;
        }
        const std::string below_path = path + "/" + below.name;
        if (!nfs::client::is_plain_name(below.name.c_str())) {
            trouble(below_path,
                    "refused: the server sent a name that could lead out of the target directory");
        } else if (!below.known) {
            trouble(below_path, "the server does not tell what it is");
        } else {
            get_entry(below, Place{directory, below.name, below_path}, depth + 1);
        }
    }
}

namespace {

// Step by step, each without following a link.
Result<UniqueFd> open_path(int at, const std::vector<std::string>& names) {
    UniqueFd fd;
    for (const std::string& name : names) {
        Result<UniqueFd> next = open_directory(fd ? fd.get() : at, name, false);
        if (!next) return next;
        fd = *std::move(next);
    }
    return fd;
}

}  // namespace

bool TreeGetter::finish() {
    jobs_.wait_for_all();
    // The deepest come first: a directory that may not be written to would be in the way.
    for (auto made = directories_.rbegin(); made != directories_.rend(); ++made) {
        Result<UniqueFd> fd = open_path(made->at, made->names);
        const Result<void> set =
            fd ? set_mode_and_mtime(fd->get(), made->attributes.mode, made->attributes.mtime)
               : Result<void>(fd.error());
        if (!set) trouble(made->path, errno_text(set.error().sys));
    }
    directories_.clear();
    return !failed_ && !jobs_.failed();
}

}  // namespace nfsrdma::tool
