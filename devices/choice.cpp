#include "devices/choice.hpp"

#include <cerrno>
#include <sys/socket.h>

#include "base/unique_fd.hpp"

namespace nfsrdma::devices {
namespace {

constexpr std::string_view kRdmacore = "rdmacore";
constexpr std::uint16_t kAnyPort = 9;  // nothing is sent there

}  // namespace

std::optional<Choice> parse_choice(std::string_view text) {
    if (text == "softroce") return Choice{Kind::softroce, {}};
    if (text == "auto") return Choice{Kind::automatic, {}};
    if (text == kRdmacore) return Choice{Kind::rdmacore, {}};
    if (text.substr(0, kRdmacore.size()) != kRdmacore) return std::nullopt;
    text.remove_prefix(kRdmacore.size());
    if (text.size() < 2 || text.front() != ':') return std::nullopt;
    return Choice{Kind::rdmacore, std::string(text.substr(1))};
}

std::string to_string(const Choice& choice) {
    switch (choice.kind) {
        case Kind::softroce:
            return "softroce";
        case Kind::rdmacore:
            return choice.name.empty() ? "rdmacore" : "rdmacore:" + choice.name;
        case Kind::automatic:
            return "auto";
    }
    return {};
}

std::string check_choice(const std::string& text) {
    if (parse_choice(text)) return {};
    return "'" + text + "' is no device: softroce, rdmacore, rdmacore:NAME or auto";
}

Result<SockAddr> address_towards(const SockAddr& peer) {
    UniqueFd fd(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) return Error{Errc::system, errno, "make a socket"};
    const SockAddr to = peer.port() == 0 ? peer.with_port(kAnyPort) : peer;
    if (::connect(fd.get(), to.sa(), to.sa_len()) != 0)
        return Error{Errc::system, errno, "find the way to the peer"};
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
    if (::getsockname(fd.get(), sa, &size) != 0)
        return Error{Errc::system, errno, "name of a socket"};
    return SockAddr::from(sa).with_port(0);
}

}  // namespace nfsrdma::devices
