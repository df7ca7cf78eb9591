#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/sock_addr.hpp"

namespace nfsrdma::nfsrdmad {

// A universal address (RFC 5665 s5.2.3.3): 127.0.0.1 and port 20049 are "127.0.0.1.78.81".
std::string universal_address(const SockAddr& address);

// What this process serves, told to the rpcbind of this machine and taken back at the end. One
// thread.
class Rpcbind {
  public:
    // `socket`: where rpcbind listens.
    explicit Rpcbind(std::string socket = "/run/rpcbind.sock") : socket_(std::move(socket)) {}
    ~Rpcbind() { remove_all(); }
    Rpcbind(const Rpcbind&) = delete;
    Rpcbind& operator=(const Rpcbind&) = delete;
    // Errc::system: nobody listens there; Errc::refused: another address is registered already, or
    // this process may not register.
    Result<void> add(std::uint32_t prog, std::uint32_t vers, const std::string& netid,
                     const SockAddr& address);
    void remove_all() noexcept;
    std::size_t size() const noexcept { return entries_.size(); }

  private:
    struct Entry {
        std::uint32_t prog = 0, vers = 0;
        std::string netid, address;
    };
    enum class Change : std::uint8_t { set, unset };
    Result<bool> call(Change change, Entry& entry) noexcept;
    std::string socket_;
    std::vector<Entry> entries_;
};

}  // namespace nfsrdma::nfsrdmad
