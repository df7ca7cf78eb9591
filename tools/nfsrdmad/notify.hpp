#pragma once
#include <string>
#include <string_view>

namespace nfsrdma::nfsrdmad {

// Tells the service manager how things stand: sd_notify(3)'s protocol, a datagram to the socket
// that $NOTIFY_SOCKET names. Without it nothing is told. Never blocks, never fails: a manager that
// does not listen is no reason not to serve.
class Notify {
  public:
    // A path, or "@name" in the abstract namespace; nullptr or another text: tells nobody.
    explicit Notify(const char* socket);

    void ready(std::string_view status) const noexcept;
    void reloading() const noexcept;
    void stopping() const noexcept;

  private:
    void send(const std::string& text) const noexcept;
    std::string socket_;
};

}  // namespace nfsrdma::nfsrdmad
