#include "tools/nfsrdma/progress.hpp"

#include <algorithm>
#include <cstdio>

#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint64_t kShowEveryNs = 200 * kNsPerMs;
constexpr std::size_t kBarWidth = 24;

}  // namespace

Progress::Progress(Loop& loop, bool terminal, std::uint64_t total_bytes) noexcept
    : loop_(loop),
      terminal_(terminal),
      total_bytes_(total_bytes),
      started_ns_(loop.now_ns()),
      timer_(on_timer, *this) {
    if (terminal_) loop_.arm(timer_, started_ns_ + kShowEveryNs);
}

Progress::~Progress() {
    loop_.disarm(timer_);
    if (shown_) (void)std::fputs("\r\033[K", stdout);
    (void)std::fflush(stdout);
}

double Progress::seconds() const noexcept {
    return static_cast<double>(loop_.now_ns() - started_ns_) / static_cast<double>(kNsPerSec);
}

std::string Progress::line() const {
    std::string out;
    if (total_bytes_ != 0) {
        // A file may have grown since it was measured.
        const double part =
            std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(total_bytes_));
        const auto marks = static_cast<std::size_t>(part * kBarWidth);
        out += "[" + std::string(marks, '#') + std::string(kBarWidth - marks, '.') + "] " +
               std::to_string(static_cast<int>(part * 100)) + " %  ";
    }
    const double elapsed = seconds();
    out += human_bytes(static_cast<double>(bytes_));
    if (elapsed > 0) out += "  " + human_bytes(static_cast<double>(bytes_) / elapsed) + "/s";
    if (files_ != 0) out += "  " + std::to_string(files_) + (files_ == 1 ? " file" : " files");
    return out;
}

void Progress::on_timer(Timer& timer) noexcept {
    Progress& self = static_cast<ShowTimer&>(timer).progress;
    const std::string text = "\r" + self.line() + "\033[K";
    (void)std::fputs(text.c_str(), stdout);
    (void)std::fflush(stdout);
    self.shown_ = true;
    self.loop_.arm(self.timer_, self.loop_.now_ns() + kShowEveryNs);
}

}  // namespace nfsrdma::tool
