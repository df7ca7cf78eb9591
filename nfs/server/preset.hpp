#pragma once
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "nfs/nfs3_types.hpp"

// Where handles and names of arguments are decoded to: a request's own buffer, so that decoding
// allocates nothing.
namespace nfsrdma::nfs {

// A string's room: its bound, the terminator, rounded up.
inline constexpr std::uint32_t kNameRoom = align_up(NFS3_NAME_MAX + 1u, 16);
inline constexpr std::uint32_t kPathRoom = align_up(NFS3_PATH_MAX + 1u, 16);
// SYMLINK and RENAME have the most.
inline constexpr std::uint32_t kPresetBytes = NFS3_FHSIZE + kNameRoom + kPathRoom;
static_assert(kPresetBytes >= 2 * (NFS3_FHSIZE + kNameRoom));

// XDR strings may have zero bytes inside, which C strings do not show. A room is filled with this
// first, so that a second zero tells of one: see has_inner_zero.
inline constexpr int kRoomFill = 0xff;

class PresetRoom {
  public:
    explicit PresetRoom(std::span<std::byte> room) noexcept : room_(room) {}
    void take(nfs_fh3& fh) noexcept { fh.data.data_val = as_chars(next(NFS3_FHSIZE)); }
    void take(diropargs3& what) noexcept {
        take(what.dir);
        what.name = text(kNameRoom);
    }
    void take_path(char*& path) noexcept { path = text(kPathRoom); }

  private:
    std::byte* next(std::size_t bytes) noexcept {
        std::byte* const at = room_.first(bytes).data();
        room_ = room_.subspan(bytes);
        return at;
    }
    char* text(std::size_t bytes) noexcept {
        std::byte* const at = next(bytes);
        std::memset(at, kRoomFill, bytes);
        return as_chars(at);
    }
    std::span<std::byte> room_;
};

// `text` was decoded into a room of `bytes`.
inline bool has_inner_zero(const char* text, std::size_t bytes) noexcept {
    const std::size_t length = strnlen(text, bytes);
    return length + 1 < bytes && std::memchr(text + length + 1, 0, bytes - length - 1) != nullptr;
}

inline void preset_nothing(void* /*args*/, std::span<std::byte> /*room*/) noexcept {}

// Of arguments with one handle, or one handle and name.
template <auto Member>
struct MemberOf;
template <class Args, class Field, Field Args::*Member>
struct MemberOf<Member> {
    static void take(void* args, std::span<std::byte> room) noexcept {
        PresetRoom(room).take(static_cast<Args*>(args)->*Member);
    }
};
template <auto Member>
void preset(void* args, std::span<std::byte> room) noexcept {
    MemberOf<Member>::take(args, room);
}

}  // namespace nfsrdma::nfs
