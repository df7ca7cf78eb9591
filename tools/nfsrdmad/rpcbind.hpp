#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sunrpc/rpcbind.hpp"

namespace nfsrdma::nfsrdmad {

// What this process serves, told to the rpcbind of this machine and taken back at the end. One
// thread.
class Rpcbind {
  public:
    // `socket`: where rpcbind listens.
    explicit Rpcbind(std::string socket = sunrpc::kRpcbindSocket) : socket_(std::move(socket)) {}
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
    std::string socket_;
    std::vector<sunrpc::RpcbindEntry> entries_;
};

}  // namespace nfsrdma::nfsrdmad
