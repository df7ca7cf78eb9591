#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace nfsrdma::tool {

// What the command line says.
struct Options {
    std::string device = "softroce", bind, registration = "auto", loop = "auto";
    double timeout_s = 60;
    std::uint32_t rsize = 0, wsize = 0;  // 0: what the server allows
    bool stats = false, json = false;

    std::vector<std::string> paths;  // arguments of the command, in order
    bool recursive = false, long_listing = false, parents = false, symbolic = false, force = false;
    std::uint32_t jobs = 16;
    std::uint32_t count = 4;
    double interval_s = 0.2;
};

inline constexpr int kOk = 0, kFailed = 1, kUsage = 2;  // exit statuses

}  // namespace nfsrdma::tool
