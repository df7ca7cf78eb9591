#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "base/loop.hpp"
#include "devices/open.hpp"

// What every example begins with: a loop, and a device on it.
struct Place {
    nfsrdma::SockAddr address;  // of the server
    std::unique_ptr<nfsrdma::Loop> loop;
    nfsrdma::devices::Opened device;  // dies before the loop, and after all that is made from it

    // `device` is softroce, rdmacore, rdmacore:NAME or auto; nullptr: softroce. Which address it
    // belongs to: that of the server, or the local one that leads there.
    static nfsrdma::Result<Place> open(const char* address, std::uint16_t port, const char* device,
                                       bool is_server) {
        Place place;
        NR_TRY_ASSIGN(place.address,
                      nfsrdma::SockAddr::parse(address == nullptr ? "" : address, port));
        const auto choice = nfsrdma::devices::parse_choice(device == nullptr ? "softroce" : device);
        if (!choice) return nfsrdma::Error{nfsrdma::Errc::invalid_argument, 0, "no such device"};
        NR_TRY_ASSIGN(place.loop, nfsrdma::Loop::create({}));
        NR_TRY_ASSIGN(place.device, nfsrdma::devices::open(*place.loop, {.choice = *choice,
                                                                         .address = place.address,
                                                                         .passive = is_server}));
        return place;
    }
};

// Says what failed, and gives the program's exit status.
inline int failed(const char* what, const std::string& why) {
    (void)std::fprintf(stderr, "%s: %s\n", what, why.c_str());
    return 1;
}
inline int failed(const char* what, const nfsrdma::Error& error) {
    return failed(what, to_string(error));
}

// For printf.
inline unsigned long long ull(std::uint64_t number) {
    return number;
}
