#pragma once
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "sunrpc/svc.hpp"

// A small RPC program for tests: one opaque item in arguments, one in results, one string each way.
// Its XDR routines are written as rpcgen writes them.
namespace nfsrdma::testing::blob {

inline constexpr std::uint32_t kProg = 0x20000042, kVers = 3;
inline constexpr std::uint32_t kDataMax = 1 << 20, kNameMax = 1024;
enum Proc : std::uint32_t { null, write, read, name, hold, refuse, missing, list, count };

struct Opaque {
    u_int data_len;
    char* data_val;
};
struct WriteArgs {
    u_int id;
    Opaque data;
    u_int after;
};
struct WriteRes {
    u_int received;
    u_int sum;
    u_int after;
};
struct ReadArgs {
    u_int count;
    u_int returned;  // how many bytes there are
};
struct ReadRes {
    u_int status;
    u_int count;
    Opaque data;
    u_int after;
};
struct NameArgs {
    char* name;
    u_int after;
};
struct NameRes {
    u_int status;
    char* name;
};

inline bool_t xdr_write_args(XDR* x, WriteArgs* a) {
    return xdr_u_int(x, &a->id) && xdr_bytes(x, &a->data.data_val, &a->data.data_len, kDataMax) &&
           xdr_u_int(x, &a->after);
}
inline bool_t xdr_write_res(XDR* x, WriteRes* r) {
    return xdr_u_int(x, &r->received) && xdr_u_int(x, &r->sum) && xdr_u_int(x, &r->after);
}
inline bool_t xdr_read_args(XDR* x, ReadArgs* a) {
    return xdr_u_int(x, &a->count) && xdr_u_int(x, &a->returned);
}
inline bool_t xdr_read_res(XDR* x, ReadRes* r) {
    if (!xdr_u_int(x, &r->status)) return FALSE;
    if (r->status != 0) return TRUE;
    return xdr_u_int(x, &r->count) &&
           xdr_bytes(x, &r->data.data_val, &r->data.data_len, kDataMax) && xdr_u_int(x, &r->after);
}
inline bool_t xdr_name_args(XDR* x, NameArgs* a) {
    return xdr_string(x, &a->name, kNameMax) && xdr_u_int(x, &a->after);
}
inline bool_t xdr_name_res(XDR* x, NameRes* r) {
    return xdr_u_int(x, &r->status) && xdr_string(x, &r->name, kNameMax);
}

template <class T, bool_t (*Routine)(XDR*, T*)>
bool_t thunk(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    T* const object = va_arg(list, T*);
    va_end(list);
    return Routine(xdr, object);
}
inline bool_t nothing(XDR* /*xdr*/, ...) {
    return TRUE;
}

inline char pattern(std::size_t i, std::uint32_t seed) {
    return static_cast<char>((i * 131 + seed * 17 + (i >> 8)) & 0xff);
}
inline std::uint32_t sum_of(const char* data, std::size_t size) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < size; ++i)
        sum = sum * 31 + static_cast<unsigned char>(data[i]);
    return sum;
}

// What the handlers saw and held.
struct State {
    std::vector<sunrpc::SvcCall*> held;
    std::string last_name;
    std::uint32_t last_id = 0, last_after = 0;
    const char* last_data = nullptr;
    std::vector<char> last_bytes;
    sunrpc::AuthSys last_sys;
    sunrpc::AuthFlavor last_flavor = sunrpc::AuthFlavor::none;
    bool string_in_own_memory = false;
    std::string own_string;
};

inline State& state_of(sunrpc::SvcCall& call) {
    return *static_cast<State*>(call.program->context);
}
inline void on_null(sunrpc::SvcCall& call) noexcept {
    state_of(call).last_flavor = call.flavor;
    state_of(call).last_sys = call.sys;
    call.reply();
}
inline void on_write(sunrpc::SvcCall& call) noexcept {
    State& state = state_of(call);
    const auto& args = *static_cast<WriteArgs*>(call.args);
    auto& res = *static_cast<WriteRes*>(call.res);
    state.last_id = args.id;
    state.last_after = args.after;
    state.last_data = args.data.data_val;
    if (args.data.data_len != 0) {
        state.last_bytes.assign(args.data.data_val, args.data.data_val + args.data.data_len);
    } else {
        state.last_bytes.clear();
    }
    res.received = args.data.data_len;
    res.sum = sum_of(state.last_bytes.data(), state.last_bytes.size());
    res.after = 0xAFAFAFAF;
    call.reply();
}
inline void read_now(sunrpc::SvcCall& call) noexcept {
    const auto& args = *static_cast<ReadArgs*>(call.args);
    auto& res = *static_cast<ReadRes*>(call.res);
    if (args.returned > args.count) {
        res.status = 5;
        call.reply();
        return;
    }
    if (args.returned != 0) {
        Result<std::span<std::byte>> room = call.get_result_payload(args.returned);
        if (!room) {
            if (room.error().code == Errc::again) {
                call.wake = read_now;
                return;
            }
            call.fail(5);
            return;
        }
        for (std::size_t i = 0; i < room->size(); ++i)
            as_chars(room->data())[i] = pattern(i, args.count);
        res.data.data_val = as_chars(room->data());
    }
    res.count = res.data.data_len = args.returned;
    res.after = 0xAFAFAFAF;
    call.reply();
}
inline void on_name(sunrpc::SvcCall& call) noexcept {
    State& state = state_of(call);
    const auto& args = *static_cast<NameArgs*>(call.args);
    auto& res = *static_cast<NameRes*>(call.res);
    state.last_name = args.name;
    state.last_after = args.after;
    if (state.string_in_own_memory) {
        state.own_string = state.last_name;
        res.name = state.own_string.data();
    } else {
        const std::size_t size = state.last_name.size() + 1;
        Result<std::span<std::byte>> room =
            call.get_result_payload(static_cast<std::uint32_t>(size));
        if (!room) {
            call.fail(5);
            return;
        }
        std::memcpy(room->data(), state.last_name.c_str(), size);
        res.name = as_chars(room->data());
    }
    call.reply();
}
inline void on_hold(sunrpc::SvcCall& call) noexcept {
    state_of(call).held.push_back(&call);
}
inline void on_refuse(sunrpc::SvcCall& call) noexcept {
    call.fail(static_cast<std::uint32_t>(sunrpc::AcceptStat::system_err));
}
inline void preset_write(void* args, std::span<std::byte> /*room*/) noexcept {
    static_cast<WriteArgs*>(args)->data.data_val = nullptr;  // in place
}
inline void preset_name(void* args, std::span<std::byte> room) noexcept {
    NR_ASSERT(room.size() >= kNameMax + 1);
    static_cast<NameArgs*>(args)->name = as_chars(room.data());
}

inline std::uint32_t small(const void* /*args*/) {
    return 64;
}
inline std::uint32_t read_item_max(const void* args) {
    return static_cast<const ReadArgs*>(args)->count;
}
inline std::uint32_t name_item_max(const void* /*args*/) {
    return kNameMax;
}

inline std::array<sunrpc::SvcProcedure, Proc::count> procedures() {
    std::array<sunrpc::SvcProcedure, Proc::count> table{};
    const auto set = [&table](Proc proc, const char* text,
                              void (*handle)(sunrpc::SvcCall&) noexcept) {
        auto& entry = table.at(proc);
        entry.info.name = text;
        entry.info.xdr_args = entry.info.xdr_res = nothing;
        entry.info.args_max = entry.info.reply_max = small;
        entry.handle = handle;
        return &entry;
    };
    set(null, "NULL", on_null);
    set(hold, "HOLD", on_hold);
    set(refuse, "REFUSE", on_refuse);
    auto* entry = set(write, "WRITE", on_write);
    entry->info.xdr_args = thunk<WriteArgs, xdr_write_args>;
    entry->info.xdr_res = thunk<WriteRes, xdr_write_res>;
    entry->info.args_size = sizeof(WriteArgs);
    entry->info.res_size = sizeof(WriteRes);
    entry->info.arg_item.pointer_offset = offsetof(WriteArgs, data.data_val);
    entry->preset = preset_write;
    entry = set(read, "READ", read_now);
    entry->info.xdr_args = thunk<ReadArgs, xdr_read_args>;
    entry->info.xdr_res = thunk<ReadRes, xdr_read_res>;
    entry->info.args_size = sizeof(ReadArgs);
    entry->info.res_size = sizeof(ReadRes);
    entry->info.res_item.pointer_offset = offsetof(ReadRes, data.data_val);
    entry->info.result_item_max = read_item_max;
    entry = set(name, "NAME", on_name);
    entry->info.xdr_args = thunk<NameArgs, xdr_name_args>;
    entry->info.xdr_res = thunk<NameRes, xdr_name_res>;
    entry->info.args_size = sizeof(NameArgs);
    entry->info.res_size = sizeof(NameRes);
    entry->info.arg_item = {offsetof(NameArgs, name), kNameMax};
    entry->info.res_item = {offsetof(NameRes, name), kNameMax};
    entry->info.result_item_max = name_item_max;
    entry->preset = preset_name;
    // The same without a preset: libtirpc allocates.
    entry = set(list, "LIST", on_name);
    entry->info = table.at(name).info;
    entry->info.name = "LIST";
    return table;
}

inline sunrpc::SvcProgram program(std::span<const sunrpc::SvcProcedure> table, State& state) {
    sunrpc::SvcProgram made;
    made.prog = kProg;
    made.vers = kVers;
    made.procedures = table;
    made.preset_bytes = kNameMax + 1;
    made.context = &state;
    return made;
}

}  // namespace nfsrdma::testing::blob
