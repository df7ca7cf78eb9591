#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/sock_addr.hpp"

// What --device says.
namespace nfsrdma::devices {

enum class Kind : std::uint8_t {
    softroce,   // ours, in user space, over UDP
    rdmacore,   // one that the kernel has, by libibverbs and librdmacm
    automatic,  // rdmacore where the kernel has a device for the address, else softroce
};

struct Choice {
    Kind kind = Kind::softroce;
    std::string name;  // rdmacore: a device or a local address of one; empty: by the address
};

// "softroce", "rdmacore", "rdmacore:NAME", "auto".
std::optional<Choice> parse_choice(std::string_view text);
std::string to_string(const Choice& choice);
// For option parsers: what is wrong with `text`; empty: nothing.
std::string check_choice(const std::string& text);
inline constexpr const char* kChoiceType = "softroce|rdmacore[:NAME]|auto";
inline constexpr const char* kChoiceHelp =
    "RDMA device: softroce is RoCEv2 in user space, over UDP; rdmacore is one that the kernel has, "
    "by "
    "NAME, by an address of it, or the one that leads to the peer; auto takes such a one where "
    "there "
    "is one";

// The local address from which `peer` is reached. Errc::system: no route.
Result<SockAddr> address_towards(const SockAddr& peer);

}  // namespace nfsrdma::devices
