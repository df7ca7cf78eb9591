#include "tools/rpcrdma_bench/tirpc_rows.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "tools/rpcrdma_bench/peer_process.hpp"
#include "tools/rpcrdma_bench/tirpc_echo.hpp"

namespace nfsrdma::bench {
namespace {

struct Row {
    const char* name;
    std::uint32_t bytes;
    EchoWay way;
};
// A program that changes no more than its create calls has the rows of NULL and `whole`; one that
// registers a table as well (rpcrdma_ulb_register) those of plain sizes.
constexpr std::array<Row, 7> kRows = {{
    {"tirpc_null_vs_tcp", 0, EchoWay::rdma},
    {"tirpc_64k_vs_tcp", 64 << 10, EchoWay::rdma},
    {"tirpc_1m_vs_tcp", 1 << 20, EchoWay::rdma},
    {"tirpc_64k_whole_vs_tcp", 64 << 10, EchoWay::rdma_whole},
    {"tirpc_1m_whole_vs_tcp", 1 << 20, EchoWay::rdma_whole},
    {"tirpc_64k_zero_copy_vs_tcp", 64 << 10, EchoWay::rdma_zero_copy},
    {"tirpc_1m_zero_copy_vs_tcp", 1 << 20, EchoWay::rdma_zero_copy},
}};

// A server in a process of its own and a client here, by one way.
class Side {
  public:
    // Before any client is made: they have threads.
    bool serve(const char* role) {
        address_ = random_loopback();
        auto peer = PeerProcess::start(
            {.program = {}, .arguments = {"role", role, address_}, .environment = {}});
        if (peer) {
            peer_.emplace(*std::move(peer));
            return true;
        }
        (void)std::fprintf(stderr, "rpcrdma-bench: %s: %s\n", role,
                           to_string(peer.error()).c_str());
        return false;
    }
    void connect(EchoWay way) {
        const int port = std::atoi(peer_->ready_line().c_str());
        client_ = std::make_unique<EchoClient>(way, address_, port, random_loopback());
    }
    Load load(std::uint32_t bytes) const {
        return [this, bytes](double seconds) { return client_->rate(bytes, seconds); };
    }

  private:
    std::string address_;
    std::optional<PeerProcess> peer_;
    std::unique_ptr<EchoClient> client_;
};

}  // namespace

std::vector<std::string> tirpc_row_names() {
    std::vector<std::string> names;
    names.reserve(kRows.size());
    for (const Row& row : kRows)
        names.emplace_back(row.name);
    return names;
}

int run_tirpc(const RatioOptions& options) {
    pin_to(kClientCpu);
    Side tcp, rdma, whole, zero_copy;
    if (!tcp.serve("tirpc-echo-tcp") || !rdma.serve("tirpc-echo-rdma") ||
        !whole.serve("tirpc-echo-rdma-whole") || !zero_copy.serve("tirpc-echo-rdma-zero-copy"))
        return 1;
    tcp.connect(EchoWay::tcp);
    rdma.connect(EchoWay::rdma);
    whole.connect(EchoWay::rdma_whole);
    zero_copy.connect(EchoWay::rdma_zero_copy);
    bool failed = false;
    for (const Row& row : kRows) {
        if (!options.wants(row.name)) continue;
        const Side& ours = row.way == EchoWay::rdma         ? rdma
                           : row.way == EchoWay::rdma_whole ? whole
                                                            : zero_copy;
        failed = !print(measure_pairs(row.name, "1/s", ours.load(row.bytes), tcp.load(row.bytes),
                                      options.pairs),
                        options.json) ||
                 failed;
    }
    return failed ? 1 : 0;
}

}  // namespace nfsrdma::bench
