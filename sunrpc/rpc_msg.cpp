#include "sunrpc/rpc_msg.hpp"

#include <cstring>

#include "base/bytes.hpp"

namespace nfsrdma::sunrpc {
namespace {

constexpr std::uint32_t kCall = 0, kReply = 1;
constexpr std::uint32_t kAccepted = 0, kDenied = 1;

// Reads words and opaques; once something is missing everything after it is missing as well.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
    bool word(std::uint32_t& out) noexcept {
        if (bytes_.size() - used_ < 4) return false;
        out = load_be32(bytes_.data() + used_);
        used_ += 4;
        return true;
    }
    // opaque<max>, with its pad.
    bool opaque(std::uint32_t max, std::span<const std::byte>& out) noexcept {
        std::uint32_t size = 0;
        if (!word(size) || size > max) return false;
        const std::uint32_t padded = align_up(size, 4);
        if (bytes_.size() - used_ < padded) return false;
        out = bytes_.subspan(used_, size);
        used_ += padded;
        return true;
    }
    std::uint32_t used() const noexcept { return static_cast<std::uint32_t>(used_); }

  private:
    std::span<const std::byte> bytes_;
    std::size_t used_ = 0;
};

// The caller has made sure of the room.
class Writer {
  public:
    explicit Writer(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}
    void word(std::uint32_t value) noexcept {
        store_be32(bytes_.data() + used_, value);
        used_ += 4;
    }
    void opaque(const char* data, std::uint32_t size) noexcept {
        word(size);
        const std::uint32_t padded = align_up(size, 4);
        std::memcpy(bytes_.data() + used_, data, size);
        std::memset(bytes_.data() + used_ + size, 0, padded - size);
        used_ += padded;
    }
    std::uint32_t used() const noexcept { return static_cast<std::uint32_t>(used_); }

  private:
    std::span<std::byte> bytes_;
    std::size_t used_ = 0;
};

std::uint32_t machine_length(const AuthSys& sys) noexcept {
    return static_cast<std::uint32_t>(::strnlen(sys.machine.data(), kMachineNameMax));
}

std::uint32_t auth_sys_size(const AuthSys& sys) noexcept {
    // stamp, machine name, uid, gid, count of groups, groups.
    return 4 + 4 + align_up(machine_length(sys), 4) + 4 + 4 + 4 + 4 * sys.group_count;
}

// RFC 5531 appendix A. Bytes after the groups are tolerated, as by other servers.
bool decode_auth_sys(std::span<const std::byte> body, AuthSys& out) noexcept {
    Reader reader(body);
    std::span<const std::byte> machine;
    if (!reader.word(out.stamp) || !reader.opaque(kMachineNameMax, machine)) return false;
    if (!machine.empty()) std::memcpy(out.machine.data(), machine.data(), machine.size());
    out.machine.at(machine.size()) = '\0';
    std::uint32_t count = 0;
    if (!reader.word(out.uid) || !reader.word(out.gid) || !reader.word(count)) return false;
    if (count > kAuthSysGroupsMax) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (!reader.word(out.groups.at(i))) return false;
    }
    out.group_count = count;
    return true;
}

CallFault decode_credential(Reader& reader, CallHeader& out) noexcept {
    std::uint32_t flavor = 0;
    std::span<const std::byte> body;
    if (!reader.word(flavor) || !reader.opaque(kAuthBodyMax, body)) return CallFault::bad_cred;
    out.flavor = AuthFlavor{flavor};
    if (out.flavor == AuthFlavor::none) return CallFault::none;
    if (out.flavor == AuthFlavor::shorthand) return CallFault::rejected_cred;
    if (out.flavor != AuthFlavor::sys) return CallFault::too_weak;
    return decode_auth_sys(body, out.sys) ? CallFault::none : CallFault::bad_cred;
}

Error bad_reply(const char* what) noexcept {
    return Error{Errc::bad_message, 0, what};
}

}  // namespace

CallFault decode_call(std::span<const std::byte> message, CallHeader& out) noexcept {
    Reader reader(message);
    std::uint32_t type = 0;
    if (!reader.word(out.xid) || !reader.word(type) || type != kCall) return CallFault::drop;
    if (!reader.word(out.rpc_vers)) return CallFault::garbage;
    if (out.rpc_vers != kRpcVersion) return CallFault::rpc_mismatch;
    if (!reader.word(out.prog) || !reader.word(out.vers) || !reader.word(out.proc)) {
        return CallFault::garbage;
    }
    if (const CallFault fault = decode_credential(reader, out); fault != CallFault::none) {
        return fault;
    }
    // The verifier of the flavors that we take says nothing; it is only measured.
    std::uint32_t flavor = 0;
    std::span<const std::byte> body;
    if (!reader.word(flavor) || !reader.opaque(kAuthBodyMax, body)) return CallFault::bad_verf;
    out.size = reader.used();
    return CallFault::none;
}

std::uint32_t call_header_size(const AuthSys* sys) noexcept {
    // xid, type, RPC version, program, version, procedure; credential; verifier.
    return 24 + 8 + (sys != nullptr ? auth_sys_size(*sys) : 0) + 8;
}

Result<std::uint32_t> encode_call(std::span<std::byte> out, const CallHeader& header,
                                  const AuthSys* sys) noexcept {
    NR_ASSERT(sys == nullptr || sys->group_count <= kAuthSysGroupsMax);
    if (out.size() < call_header_size(sys))
        return Error{Errc::too_big, 0, "encode RPC call header"};
    Writer writer(out);
    writer.word(header.xid);
    writer.word(kCall);
    writer.word(header.rpc_vers);
    writer.word(header.prog);
    writer.word(header.vers);
    writer.word(header.proc);
    if (sys == nullptr) {
        writer.word(static_cast<std::uint32_t>(AuthFlavor::none));
        writer.word(0);
    } else {
        writer.word(static_cast<std::uint32_t>(AuthFlavor::sys));
        writer.word(auth_sys_size(*sys));
        writer.word(sys->stamp);
        writer.opaque(sys->machine.data(), machine_length(*sys));
        writer.word(sys->uid);
        writer.word(sys->gid);
        writer.word(sys->group_count);
        for (std::uint32_t i = 0; i < sys->group_count; ++i)
            writer.word(sys->groups.at(i));
    }
    writer.word(static_cast<std::uint32_t>(AuthFlavor::none));
    writer.word(0);
    return writer.used();
}

namespace {

Result<void> decode_accepted(Reader& reader, ReplyHeader& out) noexcept {
    std::uint32_t flavor = 0, stat = 0;
    std::span<const std::byte> verifier;
    if (!reader.word(flavor) || !reader.opaque(kAuthBodyMax, verifier)) {
        return bad_reply("verifier of RPC reply");
    }
    if (!reader.word(stat) || stat > static_cast<std::uint32_t>(AcceptStat::system_err)) {
        return bad_reply("accept_stat of RPC reply");
    }
    out.accept = AcceptStat{stat};
    if (out.accept == AcceptStat::prog_mismatch &&
        (!reader.word(out.low) || !reader.word(out.high))) {
        return bad_reply("versions of RPC reply");
    }
    return {};
}

Result<void> decode_denied(Reader& reader, ReplyHeader& out) noexcept {
    std::uint32_t stat = 0;
    if (!reader.word(stat) || stat > static_cast<std::uint32_t>(RejectStat::auth_error)) {
        return bad_reply("reject_stat of RPC reply");
    }
    out.reject = RejectStat{stat};
    if (out.reject == RejectStat::rpc_mismatch) {
        if (!reader.word(out.low) || !reader.word(out.high))
            return bad_reply("versions of RPC reply");
        return {};
    }
    std::uint32_t auth = 0;
    if (!reader.word(auth)) return bad_reply("auth_stat of RPC reply");
    out.auth = AuthStat{auth};
    return {};
}

}  // namespace

Result<void> decode_reply(std::span<const std::byte> message, ReplyHeader& out) noexcept {
    Reader reader(message);
    std::uint32_t type = 0, stat = 0;
    if (!reader.word(out.xid) || !reader.word(type) || type != kReply || !reader.word(stat) ||
        stat > kDenied) {
        return bad_reply("head of RPC reply");
    }
    out.accepted = stat == kAccepted;
    NR_TRY(out.accepted ? decode_accepted(reader, out) : decode_denied(reader, out));
    out.size = reader.used();
    return {};
}

Result<std::uint32_t> encode_reply(std::span<std::byte> out, const ReplyHeader& header) noexcept {
    constexpr std::uint32_t kLargest =
        32;  // prog_mismatch: xid, type, stat, verifier, accept, low, high
    if (out.size() < kLargest) return Error{Errc::too_big, 0, "encode RPC reply header"};
    Writer writer(out);
    writer.word(header.xid);
    writer.word(kReply);
    if (header.accepted) {
        writer.word(kAccepted);
        writer.word(static_cast<std::uint32_t>(AuthFlavor::none));
        writer.word(0);
        writer.word(static_cast<std::uint32_t>(header.accept));
    } else {
        writer.word(kDenied);
        writer.word(static_cast<std::uint32_t>(header.reject));
    }
    if (header.accepted ? header.accept == AcceptStat::prog_mismatch
                        : header.reject == RejectStat::rpc_mismatch) {
        writer.word(header.low);
        writer.word(header.high);
    } else if (!header.accepted) {
        writer.word(static_cast<std::uint32_t>(header.auth));
    }
    return writer.used();
}

}  // namespace nfsrdma::sunrpc
