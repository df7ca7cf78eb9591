#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/nfsrdma/json.hpp"

namespace nfsrdma::tool {

// What became of the files of a copy. Every failure is told on standard error when it happens, and
// kept for the summary.
class CopyReport {
  public:
    struct Failure {
        std::string path, why;
    };
    // `quiet`: not on standard error any more (the user has interrupted; the rest follows from it).
    void failed(const std::string& path, const std::string& why, bool quiet = false);
    // Neither a failure nor a copy: devices, sockets, fifos.
    void left_out(const std::string& path, const std::string& why);
    bool good() const noexcept { return failures_.empty(); }
    const std::vector<Failure>& failures() const noexcept { return failures_; }

    std::uint64_t files = 0;        // copied
    std::uint64_t skipped = 0;      // complete already
    std::uint64_t continued = 0;    // of `files`: from where an earlier copy had ended
    std::uint64_t verified = 0;     // compared byte by byte
    std::uint64_t directories = 0;  // made, or there already
    std::uint64_t links = 0;        // symbolic ones
    std::uint64_t omitted = 0;      // left out

    void add_to(JsonObject& object) const;
    std::string line() const;  // for people: "12 files, 3 skipped, 1 failed"

  private:
    std::vector<Failure> failures_;
};

}  // namespace nfsrdma::tool
