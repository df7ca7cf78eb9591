// ls: directories and trees.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/json.hpp"
#include "tools/nfsrdma/text.hpp"
#include "tools/nfsrdma/tree_walk.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;

class Lister final : public TreeVisitor {
  public:
    Lister(Session& session, const Options& options) : session_(session), options_(options) {}
    // One argument of several has its own title.
    void list(const Url& url, bool titled) {
        root_ = url.text();
        const bool itself = options_.long_listing || options_.directory_itself || options_.json;
        const Found found = session_.walk(url, !itself);
        if (!found.outcome.ok()) {
            failed(root_, session_.explain(found.outcome));
            return;
        }
        Entry entry{last_component(url.path), found.attributes, found.handle, true, false};
        if (entry.name.empty()) entry.name = "/";
        if (found.attributes.type != NF3DIR || options_.directory_itself) {
            print(entry, entry.name);
            return;
        }
        if (titled && !options_.json) std::printf("%s:\n", for_stdout(root_).c_str());
        WalkOptions how;
        how.list.dots = options_.all;
        how.list.names_only = !options_.long_listing && !options_.recursive && !options_.json;
        first_ = true;
        walk_tree(session_, *this, entry, root_, how);
    }
    bool good() const noexcept { return good_; }

  private:
    bool enter(const Entry& directory, const std::string& path) override {
        (void)directory;
        if (options_.recursive && !options_.json) {
            std::printf("%s.%s:\n", first_ ? "" : "\n", for_stdout(below(path)).c_str());
        }
        first_ = false;
        return true;
    }
    bool listed(const std::vector<Entry>& entries, const std::string& path) override {
        const std::string folder = below(path);
        for (const Entry& entry : entries) {
            if (stopped()) return false;
            print(entry, folder.empty() ? entry.name : folder.substr(1) + "/" + entry.name);
        }
        return options_.recursive;
    }
    void leaf(const Entry& /*entry*/, const FileHandle& /*parent*/,
              const std::string& /*path*/) override {}
    void leave(const Entry& /*directory*/, const FileHandle& /*parent*/,
               const std::string& /*path*/) override {}
    void failed(const std::string& path, const std::string& why) override {
        good_ = false;
        if (!session_.interrupted()) complain(path, why);
    }
    bool stopped() const override { return std::ferror(stdout) != 0; }

    std::string below(const std::string& path) const { return path.substr(root_.size()); }
    void print(const Entry& entry, const std::string& path) {
        if (options_.json) {
            print_json(entry, path);
        } else if (options_.long_listing) {
            print_long(entry);
        } else {
            end_line(entry.name);
        }
    }
    void end_line(const std::string& name) const {
        const std::string shown = options_.null_ends ? name : for_stdout(name);
        (void)std::fwrite(shown.data(), 1, shown.size(), stdout);
        (void)std::putc(options_.null_ends ? '\0' : '\n', stdout);
    }
    std::string link_target(const FileHandle& link) {
        nfs::client::ReadlinkOp op;
        op.args.symlink = link.view();
        if (!session_.run(op).ok() || op.res.READLINK3res_u.resok.data == nullptr) return "?";
        return op.res.READLINK3res_u.resok.data;
    }
    void print_long(const Entry& entry) {
        const fattr3& attr = entry.attributes;
        if (!entry.known) {
            std::printf("??????????   ?        ?        ?            ? ?                ");
            end_line(entry.name);
            return;
        }
        std::string shown = entry.name;
        if (attr.type == NF3LNK) shown += " -> " + link_target(entry.handle);
        std::printf("%s %3u %8u %8u %12" PRIu64 " %s ", mode_text(attr.type, attr.mode).c_str(),
                    attr.nlink, attr.uid, attr.gid, std::uint64_t{attr.size},
                    time_text(attr.mtime).substr(0, 16).c_str());
        end_line(shown);
    }
    void print_json(const Entry& entry, const std::string& path) {
        JsonObject object;
        object.add("path", path).add("name", entry.name);
        if (entry.known) {
            add_attributes(object, entry.attributes);
            if (entry.attributes.type == NF3LNK) object.add("target", link_target(entry.handle));
        }
        (void)std::fputs(object.line().c_str(), stdout);
    }

    Session& session_;
    const Options& options_;
    std::string root_;
    bool good_ = true, first_ = true;
};

}  // namespace

int run_ls(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    Lister lister(*session, options);
    for (const Url& url : urls) {
        if (session->interrupted()) break;
        lister.list(url, urls.size() > 1);
    }
    session->print_stats();
    return session->status(lister.good() ? kOk : kFailed);
}

}  // namespace nfsrdma::tool
