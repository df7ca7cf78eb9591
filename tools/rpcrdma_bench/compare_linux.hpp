#pragma once
#include <cstdint>
#include <string>

namespace nfsrdma::bench {

// Our client and server beside Linux's, all on one RDMA device of one machine and on the same kind
// of export. Each export holds a file `bench-data` of 64 MiB at least.
struct CompareLinuxOptions {
    std::string device = "auto";
    std::string linux_server, linux_export;  // Linux nfsd: ADDRESS[:PORT], PATH
    std::uint16_t linux_mount_port = 20048;  // of its MOUNT over TCP
    std::string our_server, our_export;      // nfsrdmad
    std::string mounted;                     // where Linux has mounted the Linux export over RDMA
    int rounds = 3;
    bool json = false;
};

// Sequential READ and WRITE of 64 MiB, 1 MiB each with 8 in flight, and 4 KiB READs with 16. Prints
// `{read1m,write1m,read4k}_{ours_nfsd,ours_ours}_vs_linux RATIO`, the rates behind them, the CPU
// time of the whole machine for a MiB, and of each side what its calls cost in keys. The Linux
// client is driven by fio with O_DIRECT, the same sizes and depths. Status 0 when all could be
// measured.
int run_compare_linux(const CompareLinuxOptions& options);

}  // namespace nfsrdma::bench
