#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "verbs/softroce/fault_spec.hpp"

namespace nfsrdma::stress {

// An nfsrdmad of the run's own, on a loopback address, over one directory. Ended, and waited for,
// by the destructor.
class ServerProcess {
  public:
    // `program`: nfsrdmad. Returns once it serves, or with Errc::system, Errc::timed_out or
    // Errc::closed (it ended).
    // `faults`: for its own device; empty: none.
    static Result<std::unique_ptr<ServerProcess>> start(const std::string& program,
                                                        const std::string& directory,
                                                        const std::string& faults = {});
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    const std::string& address() const noexcept { return address_; }
    pid_t pid() const noexcept { return pid_; }
    // Kills it as a crash would, and starts it again at the same address. False: there is no
    // process; one that does not come to serve is known by ended().
    bool kill_and_restart() noexcept;
    std::string ended();     // by itself, and how, for people; once; empty: it lives
    void freeze() noexcept;  // SIGSTOP
    void thaw() noexcept;    // SIGCONT

  private:
    ServerProcess() = default;
    bool spawn(int out) noexcept;
    void end(int signal) noexcept;

    std::string address_, state_;
    std::vector<std::string> words_;  // the program first
    std::vector<char*> argv_;
    pid_t pid_ = -1;
};

// Does to a server what a FaultSpec says, now and then, as long as it lives.
class ServerFaults {
  public:
    using Trouble = std::function<void(const std::string& what)>;
    // `trouble` is told, once, when the server ended by itself, after which nothing is done to it.
    ServerFaults(Loop& loop, ServerProcess& server, const verbs::softroce::FaultSpec& spec,
                 std::uint64_t seed, Trouble trouble = {});
    ~ServerFaults();
    ServerFaults(const ServerFaults&) = delete;
    ServerFaults& operator=(const ServerFaults&) = delete;
    // Leaves the server running.
    void end() noexcept;
    std::uint64_t kills() const noexcept { return kills_; }
    std::uint64_t stops() const noexcept { return stops_; }

  private:
    struct FaultTimer : Timer {
        FaultTimer(ServerFaults& f, Fire fire_it) noexcept : Timer(fire_it), faults(f) {}
        ServerFaults& faults;
    };
    bool lives();
    void tell(const std::string& what);
    void kill();
    void stop_or_go();

    Loop& loop_;
    ServerProcess& server_;
    const verbs::softroce::FaultSpec spec_;
    verbs::softroce::FaultDice dice_;
    Trouble trouble_;
    std::uint64_t kills_ = 0, stops_ = 0;
    bool frozen_ = false;
    FaultTimer kill_timer_, stop_timer_;
};

// What of `spec` is for the server's own device, as parse_faults reads it: it is the server's
// Receives that calls do not find. Everything else the client's device does to both.
std::string faults_of_server(const verbs::softroce::FaultSpec& spec);

// The folder that this program stands in; nfsrdmad stands beside it.
std::string program_folder();

}  // namespace nfsrdma::stress
