#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "nfs/server/server.hpp"
#include "tests/support/direct_xprt.hpp"

// NFSv3 and MOUNT v3 arguments into a dispatcher over one export: whatever the bytes are, every
// call is answered once or dropped, its request comes home, and memory stays bounded. An input
// finds what those before it left in the export (keep.hpp).
//
// Input: up to 16 calls, each of: procedure (one byte: 0..21 NFS, 22..27 MOUNT), how its last bytes
// come (one byte: 0 inline, else by a chunk of that many times 16 bytes), length (two bytes), and
// that many bytes of arguments. In these the word "HND1" stands for the handle of the export's
// root, with its length, and "HND2" for the one that was answered last.
namespace nfsrdma::fuzz {

class NfsWorld {
  public:
    explicit NfsWorld(std::shared_ptr<nfs::Vfs> vfs) {
        NR_ASSERT(static_cast<bool>(server_.add_export("/export", std::move(vfs))));
        server_.add_to(dispatcher_);
        testing::DirectOptions options;
        options.slots = options.requests = 1;
        options.client_payload_runs = 1;
        options.max_payload = options.max_message = 64 << 10;
        xprt_ = std::make_unique<testing::DirectXprt>(*direct_.loop, dispatcher_, options);
        constexpr std::array kExport = {std::byte{0},   std::byte{0},   std::byte{0},
                                        std::byte{7},   std::byte{'/'}, std::byte{'e'},
                                        std::byte{'x'}, std::byte{'p'}, std::byte{'o'},
                                        std::byte{'r'}, std::byte{'t'}, std::byte{0}};
        call(kNfsProcedures + MOUNTPROC3_MNT, kExport, 0);
        root_ = last_;
        NR_ASSERT(!root_.empty());
    }
    void run(std::span<const std::byte> input) {
        constexpr std::size_t kCallsMax = 16;
        left_ = input;
        last_ = root_;
        for (std::size_t i = 0; i < kCallsMax && !left_.empty(); ++i)
            call_next();
    }

  private:
    using Bytes = std::vector<std::byte>;
    static constexpr std::size_t kChunkUnit = 16;
    static constexpr std::uint32_t kNfsProcedures = 22, kProcedures = 28;

    std::uint8_t byte() {
        const auto one = take(1);
        return one.empty() ? std::uint8_t{0} : load_u8(one.data());
    }
    std::span<const std::byte> take(std::size_t bytes) {
        const auto out = left_.first(std::min(bytes, left_.size()));
        left_ = left_.subspan(out.size());
        return out;
    }
    static void put(Bytes& out, std::uint32_t word) {
        out.resize(out.size() + 4);
        store_be32(&out[out.size() - 4], word);
    }
    static Bytes call_header(std::uint32_t procedure) {
        const bool nfs = procedure < kNfsProcedures;
        Bytes out;
        for (const std::uint32_t word :
             {1u, 0u, 2u, nfs ? std::uint32_t{NFS3_PROGRAM} : std::uint32_t{MOUNT3_PROGRAM}, 3u,
              nfs ? procedure : procedure - kNfsProcedures, 0u, 0u, 0u, 0u})
            put(out, word);
        return out;
    }
    Bytes with_handles(std::span<const std::byte> args) const {
        constexpr std::uint32_t kRoot = 0x484E4431, kLast = 0x484E4432;
        Bytes out;
        while (args.size() >= 4) {
            const std::uint32_t word = load_be32(args.data());
            args = args.subspan(4);
            if (word == kRoot || word == kLast) {
                const Bytes& handle = word == kRoot ? root_ : last_;
                put(out, narrow<std::uint32_t>(handle.size()));
                out.insert(out.end(), handle.begin(), handle.end());
                out.resize(align_up(out.size(), std::size_t{4}));
            } else {
                put(out, word);
            }
        }
        out.insert(out.end(), args.begin(), args.end());
        return out;
    }
    void call_next() {
        const std::uint32_t procedure = byte() % kProcedures;
        const std::size_t chunk = byte() * kChunkUnit;
        const std::size_t length = std::size_t{byte()} << 8 | byte();
        const Bytes args = with_handles(take(length));
        call(procedure, args, std::min(chunk, args.size()));
    }
    // The last `payload` bytes come by a chunk.
    void call(std::uint32_t procedure, std::span<const std::byte> args, std::size_t payload) {
        Bytes message = call_header(procedure);
        const auto head = args.first(args.size() - payload);
        message.insert(message.end(), head.begin(), head.end());
        const testing::RawReply reply = xprt_->server().raw_call(
            message, args.last(payload), narrow<std::uint32_t>(message.size()), 1 << 10);
        NR_ASSERT(reply.answered != reply.dropped);
        NR_ASSERT(xprt_->server().requests_in_use() == 0);
        NR_ASSERT(!reply.answered || (reply.message.size() >= 24 && reply.word(1) == 1));
        learn(procedure, reply);
    }
    void learn(std::uint32_t procedure, const testing::RawReply& reply) {
        const bool told =
            procedure == NFSPROC3_LOOKUP || procedure == kNfsProcedures + MOUNTPROC3_MNT;
        const bool made = procedure >= NFSPROC3_CREATE && procedure <= NFSPROC3_MKNOD;
        std::size_t at = made ? 32 : 28;  // of the handle's length, behind a status of 0
        if ((!told && !made) || reply.message.size() < at + 4 || reply.word(6) != 0) return;
        if (made && reply.word(7) != 1) return;
        const std::uint32_t size = load_be32(&reply.message[at]);
        at += 4;
        NR_ASSERT(size <= NFS3_FHSIZE && reply.message.size() >= at + size);
        last_.assign(reply.message.begin() + static_cast<std::ptrdiff_t>(at),
                     reply.message.begin() + static_cast<std::ptrdiff_t>(at + size));
    }

    testing::DirectWorld direct_;
    nfs::Server server_;
    sunrpc::SvcDispatcher dispatcher_;
    std::unique_ptr<testing::DirectXprt> xprt_;
    std::span<const std::byte> left_;
    Bytes root_, last_;
};

}  // namespace nfsrdma::fuzz
