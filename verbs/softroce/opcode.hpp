#pragma once
#include <array>
#include <cstdint>

// The opcodes of the reliable connection service and the one datagram that connection management
// uses (InfiniBand volume 1, 9.2.1), and what each says of its packet.
namespace nfsrdma::verbs::softroce {

enum class Opcode : std::uint8_t {
    send_first = 0x00,
    send_middle = 0x01,
    send_last = 0x02,
    send_only = 0x04,
    write_first = 0x06,
    write_middle = 0x07,
    write_last = 0x08,
    write_only = 0x0A,
    read_request = 0x0C,
    read_response_first = 0x0D,
    read_response_middle = 0x0E,
    read_response_last = 0x0F,
    read_response_only = 0x10,
    acknowledge = 0x11,
    send_last_inv = 0x16,
    send_only_inv = 0x17,
    ud_send_only = 0x64,
};

enum class OpKind : std::uint8_t {
    unknown,
    send,
    write,
    read_request,
    read_response,
    ack,
    datagram
};

inline constexpr std::uint32_t kBthSize = 12, kRethSize = 16, kAethSize = 4, kIethSize = 4,
                               kDethSize = 8;

struct OpcodeInfo {
    OpKind kind = OpKind::unknown;
    bool first = false;  // begins a message
    bool last = false;   // ends a message
    bool invalidate = false;
    std::uint8_t header_size = 0;  // BTH and extended headers
};

constexpr std::array<OpcodeInfo, 256> make_opcode_table() noexcept {
    std::array<OpcodeInfo, 256> t{};
    const auto set = [&t](Opcode op, const OpcodeInfo& info, std::uint32_t extended) {
        t[static_cast<std::uint8_t>(op)] = info;
        t[static_cast<std::uint8_t>(op)].header_size =
            static_cast<std::uint8_t>(kBthSize + extended);
    };
    set(Opcode::send_first, {OpKind::send, true, false}, 0);
    set(Opcode::send_middle, {OpKind::send, false, false}, 0);
    set(Opcode::send_last, {OpKind::send, false, true}, 0);
    set(Opcode::send_only, {OpKind::send, true, true}, 0);
    set(Opcode::send_last_inv, {OpKind::send, false, true, true}, kIethSize);
    set(Opcode::send_only_inv, {OpKind::send, true, true, true}, kIethSize);
    set(Opcode::write_first, {OpKind::write, true, false}, kRethSize);
    set(Opcode::write_middle, {OpKind::write, false, false}, 0);
    set(Opcode::write_last, {OpKind::write, false, true}, 0);
    set(Opcode::write_only, {OpKind::write, true, true}, kRethSize);
    set(Opcode::read_request, {OpKind::read_request, true, true}, kRethSize);
    set(Opcode::read_response_first, {OpKind::read_response, true, false}, kAethSize);
    set(Opcode::read_response_middle, {OpKind::read_response, false, false}, 0);
    set(Opcode::read_response_last, {OpKind::read_response, false, true}, kAethSize);
    set(Opcode::read_response_only, {OpKind::read_response, true, true}, kAethSize);
    set(Opcode::acknowledge, {OpKind::ack, true, true}, kAethSize);
    set(Opcode::ud_send_only, {OpKind::datagram, true, true}, kDethSize);
    return t;
}

inline constexpr std::array<OpcodeInfo, 256> kOpcodeTable = make_opcode_table();

// Requests of the reliable connection service that this device does not do: with immediate data,
// atomics. They are refused; whatever else is unknown is dropped.
constexpr bool is_unsupported_request(std::uint8_t opcode) noexcept {
    return opcode == 0x03 || opcode == 0x05 || opcode == 0x09 || opcode == 0x0B || opcode == 0x13 ||
           opcode == 0x14;
}

constexpr const OpcodeInfo& info_of(std::uint8_t opcode) noexcept {
    return kOpcodeTable[opcode];
}

constexpr Opcode send_opcode(bool first, bool last, bool invalidate) noexcept {
    if (first && last) return invalidate ? Opcode::send_only_inv : Opcode::send_only;
    if (first) return Opcode::send_first;
    if (last) return invalidate ? Opcode::send_last_inv : Opcode::send_last;
    return Opcode::send_middle;
}
constexpr Opcode write_opcode(bool first, bool last) noexcept {
    if (first && last) return Opcode::write_only;
    if (first) return Opcode::write_first;
    return last ? Opcode::write_last : Opcode::write_middle;
}
constexpr Opcode read_response_opcode(bool first, bool last) noexcept {
    if (first && last) return Opcode::read_response_only;
    if (first) return Opcode::read_response_first;
    return last ? Opcode::read_response_last : Opcode::read_response_middle;
}

}  // namespace nfsrdma::verbs::softroce
