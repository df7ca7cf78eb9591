#pragma once
#include <cstddef>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/sock_addr.hpp"
#include "verbs/softroce/icrc.hpp"

// One golden frame of tests/vectors/roce: IPv4 header, UDP header, UDP payload, as annotated hex.
namespace nfsrdma::verbs::softroce::test {

struct RoceVector {
    std::vector<std::byte> frame;

    std::uint16_t ip_id() const { return load_be16(frame.data() + 4); }
    std::span<const std::byte> datagram() const { return std::span(frame).subspan(28); }
    std::span<const std::byte> packet() const {  // without the ICRC
        return datagram().first(datagram().size() - kIcrcBytes);
    }
    std::uint32_t icrc() const { return load_icrc(frame.data() + frame.size() - kIcrcBytes); }
    IcrcPath path() const {
        const std::byte* ip = frame.data();
        return {SockAddr::v4(load_be32(ip + 12), load_be16(ip + 20)),
                SockAddr::v4(load_be32(ip + 16), load_be16(ip + 22)), ip_id()};
    }
    std::span<const std::byte> mad() const { return packet().subspan(20); }
};

inline RoceVector load_vector(const std::string& name) {
    RoceVector vector;
    std::ifstream file("tests/vectors/roce/" + name + ".hex");
    EXPECT_TRUE(file) << name << ": run from the source directory";
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        std::istringstream words(line);
        for (std::string word; words >> word;) {
            vector.frame.push_back(static_cast<std::byte>(std::stoul(word, nullptr, 16)));
        }
    }
    EXPECT_GE(vector.frame.size(), 44u) << name;
    return vector;
}

inline constexpr const char* kRoceVectors[] = {
    "ack",
    "cm_drep",
    "cm_dreq",
    "cm_rep",
    "cm_req",
    "cm_rtu",
    "read_request",
    "read_response_first",
    "read_response_last",
    "read_response_middle",
    "read_response_only",
    "send_only",
    "send_only_inv",
    "write_first",
    "write_last",
    "write_middle",
    "write_only",
    "write_only_pad1",
    "write_only_pad2",
    "write_only_pad3",
};

}  // namespace nfsrdma::verbs::softroce::test
