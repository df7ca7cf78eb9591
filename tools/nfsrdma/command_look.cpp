// ls, stat, df, ping: what only looks.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::Outcome;

std::string link_target(Session& session, const nfs::client::FileHandle& link) {
    nfs::client::ReadlinkOp op;
    op.args.symlink = link.view();
    if (!session.run(op).ok() || op.res.READLINK3res_u.resok.data == nullptr) return "?";
    return op.res.READLINK3res_u.resok.data;
}

void print_entry(Session& session, const Entry& entry, bool long_listing) {
    const std::string name = for_stdout(entry.name);
    if (!long_listing) {
        std::printf("%s\n", name.c_str());
        return;
    }
    const fattr3& attr = entry.attributes;
    if (!entry.known) {
        std::printf(
            "%s\n",
            ("??????????   ?        ?        ?            ? ?                ?  " + name).c_str());
        return;
    }
    std::string target;
    if (attr.type == NF3LNK) target = " -> " + for_stdout(link_target(session, entry.handle));
    std::printf("%s %3u %8u %8u %12" PRIu64 " %s %s%s\n", mode_text(attr.type, attr.mode).c_str(),
                attr.nlink, attr.uid, attr.gid, std::uint64_t{attr.size},
                time_text(attr.mtime).substr(0, 16).c_str(), name.c_str(), target.c_str());
}

// `below`: path of the directory as it is shown in a recursive listing.
bool list_tree(Session& session, const Options& options, const Url& url,
               const nfs::client::FileHandle& directory, const std::string& below,
               std::uint32_t depth) {
    if (depth > kTreeDepthMax) {
        complain(url.text() + below, "the tree is too deep");
        return false;
    }
    std::vector<Entry> entries;
    const Outcome outcome = session.list(directory, entries);
    if (options.recursive) {
        std::printf("%s%s:\n", depth == 0 ? "" : "\n",
                    for_stdout(below.empty() ? "." : "." + below).c_str());
    }
    for (const Entry& entry : entries)
        print_entry(session, entry, options.long_listing);
    bool good = outcome.ok();
    if (!good) complain(url, below, outcome);
    if (!options.recursive) return good;
    for (const Entry& entry : entries) {
        if (!entry.known || entry.attributes.type != NF3DIR || session.interrupted()) continue;
        if (!list_tree(session, options, url, entry.handle, below + "/" + entry.name, depth + 1))
            good = false;
    }
    return good;
}

void print_stat(const Url& url, const Found& found) {
    const fattr3& attr = found.attributes;
    std::printf("  File: %s\n", for_stdout(url.text()).c_str());
    std::printf("  Size: %-15" PRIu64 " Used: %-15" PRIu64 " %s\n", std::uint64_t{attr.size},
                std::uint64_t{attr.used}, type_text(attr.type));
    std::printf("Fileid: %-15" PRIu64 " Links: %-5u Fsid: %" PRIx64 "\n",
                std::uint64_t{attr.fileid}, attr.nlink, std::uint64_t{attr.fsid});
    if (attr.type == NF3BLK || attr.type == NF3CHR) {
        std::printf("Device: %u,%u\n", attr.rdev.specdata1, attr.rdev.specdata2);
    }
    std::printf("Access: (%04o/%s)  Uid: %u  Gid: %u\n", attr.mode & 07777u,
                mode_text(attr.type, attr.mode).c_str(), attr.uid, attr.gid);
    const auto print_time = [](const char* name, const nfstime3& time) {
        std::printf("%s: %s.%09u\n", name, time_text(time).c_str(), time.nseconds);
    };
    print_time("Access", attr.atime);
    print_time("Modify", attr.mtime);
    print_time("Change", attr.ctime);
}

struct RoundTrips {
    std::uint32_t sent = 0;
    std::vector<double> times_us;
    void print(const std::string& server) const {
        const std::size_t got = times_us.size();
        std::printf("--- %s: %u calls, %zu answers, %.0f %% lost\n", server.c_str(), sent, got,
                    sent == 0 ? 0.0 : 100.0 * static_cast<double>(sent - got) / sent);
        if (got == 0) return;
        double sum = 0, squares = 0;
        for (const double t : times_us) {
            sum += t;
            squares += t * t;
        }
        const double mean = sum / static_cast<double>(got);
        const double spread =
            std::sqrt(std::max(0.0, squares / static_cast<double>(got) - mean * mean));
        const auto [least, most] = std::minmax_element(times_us.begin(), times_us.end());
        std::printf("round trip min/avg/max/mdev = %.1f/%.1f/%.1f/%.1f us\n", *least, mean, *most,
                    spread);
    }
};

}  // namespace

int run_ls(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    for (const Url& url : urls) {
        const Found found = session->walk(url, !options.long_listing);
        if (!found.outcome.ok()) {
            complain(url, found.outcome);
            status = kFailed;
            continue;
        }
        if (urls.size() > 1) std::printf("%s:\n", for_stdout(url.text()).c_str());
        if (found.attributes.type != NF3DIR) {
            print_entry(*session,
                        Entry{last_component(url.path), found.attributes, found.handle, true},
                        options.long_listing);
        } else if (!list_tree(*session, options, url, found.handle, "", 0)) {
            status = kFailed;
        }
    }
    session->print_stats(0, 0);
    return status;
}

int run_stat(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    for (const Url& url : urls) {
        const Found found = session->walk(url, false);
        if (found.outcome.ok()) {
            print_stat(url, found);
            continue;
        }
        complain(url, found.outcome);
        status = kFailed;
    }
    session->print_stats(0, 0);
    return status;
}

int run_df(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    std::printf("%10s %10s %10s %5s %12s %12s  %s\n", "Size", "Used", "Avail", "Use", "Files",
                "Free files", "URL");
    for (const Url& url : urls) {
        const Found found = session->walk(url, true);
        nfs::client::FsstatOp op;
        op.args.fsroot = found.handle.view();
        const Outcome outcome = found.outcome.ok() ? session->run(op) : found.outcome;
        if (!outcome.ok()) {
            complain(url, outcome);
            status = kFailed;
            continue;
        }
        const FSSTAT3resok& ok = op.res.FSSTAT3res_u.resok;
        const auto total = static_cast<double>(ok.tbytes);
        const double used = total - static_cast<double>(std::min(ok.fbytes, ok.tbytes));
        const auto available = static_cast<double>(ok.abytes);
        const double share = used + available > 0 ? std::ceil(100 * used / (used + available)) : 0;
        std::printf("%10s %10s %10s %3.0f %% %12" PRIu64 " %12" PRIu64 "  %s\n",
                    human_bytes(total).c_str(), human_bytes(used).c_str(),
                    human_bytes(available).c_str(), share, std::uint64_t{ok.tfiles},
                    std::uint64_t{ok.ffiles}, for_stdout(url.text()).c_str());
    }
    session->print_stats(0, 0);
    return status;
}

int run_ping(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    const std::string server = urls.front().server();
    RoundTrips trips;
    while (!session->interrupted() && (options.count == 0 || trips.sent < options.count)) {
        if (trips.sent != 0) session->sleep(static_cast<std::uint64_t>(options.interval_s * 1e9));
        if (session->interrupted()) break;
        ++trips.sent;
        nfs::client::NullOp op;
        const std::uint64_t begin = session->loop().now_ns();
        const Outcome outcome = session->run(op);
        const double us = static_cast<double>(session->loop().now_ns() - begin) / 1000;
        if (outcome.ok()) {
            trips.times_us.push_back(us);
            std::printf("NULL from %s: seq=%u time=%.1f us\n", server.c_str(), trips.sent, us);
            (void)std::fflush(stdout);
            continue;
        }
        complain(server, to_string(outcome));
        if (!session->connected()) break;
    }
    trips.print(server);
    session->print_stats(0, 0);
    return trips.times_us.size() == trips.sent && trips.sent != 0 ? kOk : kFailed;
}

}  // namespace nfsrdma::tool
