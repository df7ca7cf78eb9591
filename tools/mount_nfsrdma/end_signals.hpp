#pragma once
#include <functional>
#include <thread>

#include "base/unique_fd.hpp"

namespace nfsrdma::mount {

// SIGTERM, SIGINT and (in the foreground) SIGHUP end a mount in order: a thread of their own waits
// for them, and every thread that is made later blocks them.
//
// `first` runs at the first one, on that thread, with the signal's number; at the second one the
// process ends at once, with 128 and its number.
class EndSignals {
  public:
    EndSignals(bool hangup_ends, std::function<void(int)> first);
    ~EndSignals();  // no more: `first` does not run any more
    EndSignals(const EndSignals&) = delete;
    EndSignals& operator=(const EndSignals&) = delete;

  private:
    void wait() noexcept;
    std::function<void(int)> first_;
    UniqueFd signals_, stop_;
    std::thread thread_;
};

}  // namespace nfsrdma::mount
