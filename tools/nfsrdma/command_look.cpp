// stat, df, ping: what only looks.
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

void print_stat(const Options& options, const Url& url, const Found& found) {
    const fattr3& attr = found.attributes;
    if (options.json) {
        JsonObject object;
        object.add("url", url.text()).add("name", last_component(url.path));
        add_attributes(object, attr);
        (void)std::fputs(object.line().c_str(), stdout);
        return;
    }
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

void print_space(const Options& options, const Url& url, const FSSTAT3resok& ok) {
    if (options.json) {
        const JsonObject object = JsonObject()
                                      .add("url", url.text())
                                      .add("bytes", ok.tbytes)
                                      .add("bytes_free", ok.fbytes)
                                      .add("bytes_available", ok.abytes)
                                      .add("files", ok.tfiles)
                                      .add("files_free", ok.ffiles)
                                      .add("files_available", ok.afiles);
        (void)std::fputs(object.line().c_str(), stdout);
        return;
    }
    const auto total = static_cast<double>(ok.tbytes);
    const double used = total - static_cast<double>(std::min(ok.fbytes, ok.tbytes));
    const auto available = static_cast<double>(ok.abytes);
    const double share = used + available > 0 ? std::ceil(100 * used / (used + available)) : 0;
    std::printf("%10s %10s %10s %3.0f %% %12" PRIu64 " %12" PRIu64 "  %s\n",
                human_bytes(total).c_str(), human_bytes(used).c_str(),
                human_bytes(available).c_str(), share, std::uint64_t{ok.tfiles},
                std::uint64_t{ok.ffiles}, for_stdout(url.text()).c_str());
}

class RoundTrips {
  public:
    RoundTrips(Session& session, const Options& options) : session_(session), options_(options) {}
    bool once() {
        ++sent_;
        nfs::client::NullOp op;
        const std::uint64_t begin = session_.loop().now_ns();
        const Outcome outcome = session_.run(op);
        const double us = static_cast<double>(session_.loop().now_ns() - begin) / 1000;
        if (!outcome.ok()) {
            session_.complain_about(session_.server_name(), outcome);
            return false;
        }
        times_us_.push_back(us);
        if (options_.json) return true;
        std::printf("NULL from %s: seq=%u time=%.1f us\n", session_.server_name().c_str(), sent_,
                    us);
        (void)std::fflush(stdout);
        return true;
    }
    std::uint32_t sent() const noexcept { return sent_; }
    bool complete() const noexcept { return sent_ != 0 && times_us_.size() == sent_; }
    void print() const {
        const std::size_t got = times_us_.size();
        double sum = 0, squares = 0;
        for (const double t : times_us_) {
            sum += t;
            squares += t * t;
        }
        const double mean = got == 0 ? 0 : sum / static_cast<double>(got);
        const double square = got == 0 ? 0 : squares / static_cast<double>(got);
        const double spread = std::sqrt(std::max(0.0, square - mean * mean));
        const auto [least, most] = std::minmax_element(times_us_.begin(), times_us_.end());
        if (options_.json) {
            JsonObject object;
            object.add("server", session_.server_name()).add("calls", sent_).add("answers", got);
            if (got != 0) {
                object.add("min_us", *least).add("avg_us", mean).add("max_us", *most);
                object.add("mdev_us", spread);
            }
            (void)std::fputs(object.line().c_str(), stdout);
            return;
        }
        std::printf("--- %s: %u calls, %zu answers, %.0f %% lost\n", session_.server_name().c_str(),
                    sent_, got,
                    sent_ == 0 ? 0.0 : 100.0 * static_cast<double>(sent_ - got) / sent_);
        if (got == 0) return;
        std::printf("round trip min/avg/max/mdev = %.1f/%.1f/%.1f/%.1f us\n", *least, mean, *most,
                    spread);
    }

  private:
    Session& session_;
    const Options& options_;
    std::uint32_t sent_ = 0;
    std::vector<double> times_us_;
};

}  // namespace

int run_stat(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    for (const Url& url : urls) {
        const Found found = session->walk(url, false);
        if (found.outcome.ok()) {
            print_stat(options, url, found);
            continue;
        }
        session->complain_about(url.text(), found.outcome);
        status = kFailed;
    }
    session->print_stats();
    return session->status(status);
}

int run_df(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    if (!options.json) {
        std::printf("%10s %10s %10s %5s %12s %12s  %s\n", "Size", "Used", "Avail", "Use", "Files",
                    "Free files", "URL");
    }
    for (const Url& url : urls) {
        const Found found = session->walk(url, true);
        nfs::client::FsstatOp op;
        op.args.fsroot = found.handle.view();
        const Outcome outcome = found.outcome.ok() ? session->run(op) : found.outcome;
        if (outcome.ok()) {
            print_space(options, url, op.res.FSSTAT3res_u.resok);
            continue;
        }
        session->complain_about(url.text(), outcome);
        status = kFailed;
    }
    session->print_stats();
    return session->status(status);
}

// Without a mount: whether the server lives does not depend on what it exports.
int run_ping(const Options& options) {
    int status = kOk;
    std::unique_ptr<Session> session = open_server(options, options.paths.front(), status);
    if (session == nullptr) return status;
    RoundTrips trips(*session, options);
    while (!session->interrupted() && (options.count == 0 || trips.sent() < options.count)) {
        if (trips.sent() != 0) session->sleep(static_cast<std::uint64_t>(options.interval_s * 1e9));
        if (session->interrupted()) break;
        if (!trips.once() && !session->connected()) break;
    }
    trips.print();
    if (options.stats) session->print_stats();
    // To be interrupted is how an endless one ends.
    return trips.complete() ? kOk : session->status(kFailed);
}

}  // namespace nfsrdma::tool
