#include "tools/nfsrdmad/notify.hpp"

#include <array>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/unique_fd.hpp"
#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

// A service manager's end.
class Manager {
  public:
    explicit Manager(const std::string& name)
        : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::memcpy(address.sun_path, name.data(), name.size());
        if (name.front() == '@') address.sun_path[0] = '\0';
        const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
        const auto* const sa = static_cast<const sockaddr*>(static_cast<const void*>(&address));
        EXPECT_EQ(::bind(fd_.get(), sa, length), 0) << std::strerror(errno);
    }
    // Datagrams arrive at once; "" when there is none.
    std::string take() {
        std::array<char, 4096> text{};
        const ssize_t got = ::recv(fd_.get(), text.data(), text.size(), 0);
        return got < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(got));
    }

  private:
    UniqueFd fd_;
};

TEST(Notify, TellsByPath) {
    const testing::TempDir dir;
    const std::string path = dir.path() + "/notify";
    Manager manager(path);
    const Notify notify(path.c_str());
    notify.ready("serving\nthings");
    EXPECT_EQ(manager.take(), "READY=1\nSTATUS=serving things\n");
    notify.reloading();
    EXPECT_EQ(manager.take().rfind("RELOADING=1\nMONOTONIC_USEC=", 0), 0u);
    notify.stopping();
    EXPECT_EQ(manager.take().rfind("STOPPING=1\n", 0), 0u);
    EXPECT_EQ(manager.take(), "");
}

TEST(Notify, TellsByAbstractName) {
    const std::string name = "@nfsrdma-notify-test-" + std::to_string(::getpid());
    Manager manager(name);
    Notify(name.c_str()).ready("x");
    EXPECT_EQ(manager.take(), "READY=1\nSTATUS=x\n");
}

TEST(Notify, NobodyToTellIsNoFailure) {
    Notify(nullptr).ready("x");
    Notify("").stopping();
    Notify("relative").stopping();
    Notify("/nonexistent/socket").ready("x");
    Notify(("/" + std::string(200, 'x')).c_str()).ready("x");
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
