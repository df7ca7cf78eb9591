#include "tirpc/ulb.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "nfs/binding.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/xdr_stream.hpp"
#include "testprog.h"

namespace nfsrdma::tirpc {
namespace {

struct Args {
    u_int count;
    struct {
        u_int data_len;
        char* data_val;
    } data;
    char* name;
};

std::uint32_t count_of(const void* args) {
    return static_cast<const Args*>(args)->count;
}
std::uint32_t twice_count_of(const void* args) {
    return 2 * static_cast<const Args*>(args)->count;
}
bool_t never(const void* /*object*/, const char* /*at*/, std::uint32_t /*bytes*/) {
    return FALSE;
}

rpcrdma_proc proc_of(std::uint32_t number, const rpcrdma_ddp& arg, const rpcrdma_ddp& res) {
    return {number, arg, res, nullptr, nullptr};
}
constexpr rpcrdma_ddp kNone RPCRDMA_NO_DDP;
constexpr rpcrdma_ddp kData RPCRDMA_DDP(Args, data.data_val);
constexpr rpcrdma_ddp kName RPCRDMA_DDP_STRING(Args, name, 255);

TEST(Ulb, IsFoundByProgramVersionAndProcedure) {
    std::array<rpcrdma_proc, 3> procs = {proc_of(9, kData, kNone), proc_of(2, kNone, kData),
                                         proc_of(5, kName, kNone)};
    procs[1].res_max = count_of;
    procs[1].reply_max = twice_count_of;
    const rpcrdma_ulb ulb RPCRDMA_ULB(0x20001001, 1, 3, procs.data());
    ASSERT_EQ(rpcrdma_ulb_register(&ulb), 0);
    procs = {};  // it was copied

    const Binding* const binding = find_binding(0x20001001, 1);
    ASSERT_NE(binding, nullptr);
    EXPECT_EQ(find_binding(0x20001001, 2), nullptr);
    EXPECT_EQ(find_binding(0x20001002, 1), nullptr);
    for (const std::uint32_t none : {0u, 1u, 3u, 10u, ~0u})
        EXPECT_EQ(binding->proc(none), nullptr) << none;
    for (const std::uint32_t there : {2u, 5u, 9u}) {
        ASSERT_NE(binding->proc(there), nullptr);
        EXPECT_EQ(binding->proc(there)->proc, there);
    }
    Args args{};
    args.count = 700;
    EXPECT_EQ(result_item_max(binding->proc(2), &args, 1 << 20), 700u);
    EXPECT_EQ(result_item_max(binding->proc(2), &args, 500), 500u);
    EXPECT_EQ(result_item_max(binding->proc(9), &args, 500), 0u);
    EXPECT_EQ(result_item_max(nullptr, &args, 500), 0u);
    EXPECT_EQ(reply_max(binding->proc(2), &args, 9), 1400u);
    EXPECT_EQ(reply_max(binding->proc(5), &args, 9), 9u);
    EXPECT_EQ(reply_max(nullptr, &args, 9), 9u);
    // Without arguments nobody can say.
    EXPECT_EQ(result_item_max(binding->proc(2), nullptr, 500), 500u);
    EXPECT_EQ(reply_max(binding->proc(2), nullptr, 9), 9u);
}

TEST(Ulb, ItemsAreForTheStreams) {
    EXPECT_FALSE(ddp_item(kNone).exists());
    // Members that a program did not set: rpcgen has no opaque<> at offset 0.
    EXPECT_FALSE(ddp_item(rpcrdma_ddp{}).exists());
    const sunrpc::DdpItem data = ddp_item(kData, 2048);
    EXPECT_EQ(data.pointer_offset, static_cast<std::int32_t>(offsetof(Args, data.data_val)));
    EXPECT_EQ(data.string_bound, 0u);
    EXPECT_EQ(data.min, 2048u);
    EXPECT_EQ(ddp_item({16, 100, 0, nullptr}, 2048).min, 100u);
    EXPECT_EQ(ddp_item(kName).string_bound, 255u);
    // Another arm of a union might have its pointer there: so only where the table says it.
    constexpr rpcrdma_ddp kInPlace RPCRDMA_DDP_IN_PLACE(Args, data.data_val);
    EXPECT_TRUE(may_be_in_place(kInPlace));
    EXPECT_TRUE(ddp_item(kInPlace).exists());
    EXPECT_EQ(ddp_item(kInPlace).string_bound, 0u);
    for (const rpcrdma_ddp& other : {kData, kName, kNone})
        EXPECT_FALSE(may_be_in_place(other));
    // A string that is the whole of the arguments.
    const rpcrdma_ddp top{0, 0, 100, nullptr};
    EXPECT_TRUE(ddp_item(top).exists());
    EXPECT_EQ(ddp_item(top).pointer_offset, 0);
    const sunrpc::DdpItem found = ddp_item({24, 0, 0, never});
    EXPECT_TRUE(found.exists());
    EXPECT_EQ(found.pointer_offset, -1);
    EXPECT_EQ(found.match, never);
}

TEST(Ulb, ResultsHaveNoLowerBound) {
    rpcrdma_ddp item = kData;
    item.min = 4096;
    const std::array<rpcrdma_proc, 1> procs = {proc_of(1, item, item)};
    const rpcrdma_ulb ulb RPCRDMA_ULB(0x20001008, 1, 1, procs.data());
    ASSERT_EQ(rpcrdma_ulb_register(&ulb), 0);
    const rpcrdma_proc* const proc = find_binding(0x20001008, 1)->proc(1);
    EXPECT_EQ(ddp_item(proc->arg).min, 4096u);
    EXPECT_EQ(ddp_item(proc->res).min, 0u);
}

TEST(Ulb, WhatMakesNoSenseIsRefused) {
    EXPECT_EQ(rpcrdma_ulb_register(nullptr), EINVAL);
    rpcrdma_ulb ulb RPCRDMA_ULB(0x20001003, 1, 1, nullptr);
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), EINVAL);
    const auto refused = [&ulb](const rpcrdma_ddp& item) {
        for (const rpcrdma_proc& proc : {proc_of(1, item, kNone), proc_of(1, kNone, item)}) {
            ulb.procs = &proc;
            if (rpcrdma_ulb_register(&ulb) != EINVAL) return false;
        }
        return true;
    };
    EXPECT_TRUE(refused({-2, 0, 0, nullptr}));
    EXPECT_TRUE(refused({4, 0, 0, nullptr}));  // no pointer is there: data_len, by mistake
    EXPECT_TRUE(refused({1 << 30, 0, 0, nullptr}));
    EXPECT_TRUE(refused({8, 0, ~0u, nullptr}));
    const std::array<rpcrdma_proc, 2> twice = {proc_of(1, kData, kNone), proc_of(1, kNone, kData)};
    ulb.procs = twice.data();
    ulb.proc_count = 2;
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), EINVAL);
    ulb.proc_count = 1u << 30;
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), EINVAL);
    EXPECT_EQ(find_binding(0x20001003, 1), nullptr);
}

// Neither struct can grow unless the sizes of now are the only ones of now.
TEST(Ulb, OtherSizesAreRefused) {
    const rpcrdma_proc proc = proc_of(1, kData, kNone);
    const rpcrdma_ulb good RPCRDMA_ULB(0x20001009, 1, 1, &proc);
    for (const std::uint32_t size : {0u, good.size - 4, good.size + 4, ~0u}) {
        rpcrdma_ulb bad = good;
        bad.size = size;
        EXPECT_EQ(rpcrdma_ulb_register(&bad), EINVAL) << size;
    }
    for (const std::uint32_t size : {0u, good.proc_size - 8, good.proc_size + 8, ~0u}) {
        rpcrdma_ulb bad = good;
        bad.proc_size = size;
        EXPECT_EQ(rpcrdma_ulb_register(&bad), EINVAL) << size;
    }
    EXPECT_EQ(find_binding(0x20001009, 1), nullptr);
    EXPECT_EQ(rpcrdma_ulb_register(&good), 0);
}

TEST(Ulb, OnlyTheSameMayComeAgain) {
    rpcrdma_proc proc = proc_of(1, kData, kNone);
    const rpcrdma_ulb ulb RPCRDMA_ULB(0x20001004, 1, 1, &proc);
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), 0);
    const Binding* const binding = find_binding(0x20001004, 1);
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), 0);
    EXPECT_EQ(find_binding(0x20001004, 1), binding);
    proc.arg = kName;
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), EEXIST);
    const rpcrdma_ulb none RPCRDMA_ULB(0x20001004, 1, 0, nullptr);
    EXPECT_EQ(rpcrdma_ulb_register(&none), EEXIST);
    EXPECT_EQ(find_binding(0x20001004, 1), binding);
}

// RFC 8267 s4.
TEST(Ulb, NfsIsBuiltIn) {
    const Binding* const binding = find_binding(NFS3_PROGRAM, NFS_V3);
    ASSERT_NE(binding, nullptr);
    EXPECT_EQ(find_binding(NFS3_PROGRAM, 4), nullptr);
    const std::span<const sunrpc::ProcInfo> infos = nfs::nfs3_procs();
    for (std::uint32_t i = 0; i < infos.size(); ++i) {
        const rpcrdma_proc* const proc = binding->proc(i);
        ASSERT_NE(proc, nullptr) << i;
        EXPECT_EQ(ddp_item(proc->arg).pointer_offset, infos[i].arg_item.pointer_offset) << i;
        EXPECT_EQ(ddp_item(proc->res).pointer_offset, infos[i].res_item.pointer_offset) << i;
        EXPECT_EQ(ddp_item(proc->res).string_bound, infos[i].res_item.string_bound) << i;
    }
    EXPECT_EQ(binding->proc(static_cast<std::uint32_t>(infos.size())), nullptr);
    READ3args args{};
    args.count = 8192;
    EXPECT_EQ(result_item_max(binding->proc(NFSPROC3_READ), &args, 1 << 20), 8192u);
    EXPECT_TRUE(ddp_item(binding->proc(NFSPROC3_SYMLINK)->arg).exists());
    EXPECT_FALSE(ddp_item(binding->proc(NFSPROC3_LOOKUP)->arg).exists());
}

TEST(Ulb, IsFoundWhileOthersAreRegistered) {
    constexpr std::uint32_t kFirst = 0x20002000, kEach = 200;
    std::atomic<bool> stop{false};
    std::atomic<std::uint32_t> wrong{0};
    std::thread reader([&] {
        while (!stop.load()) {
            for (std::uint32_t prog = kFirst; prog < kFirst + 2 * kEach; ++prog) {
                const Binding* const found = find_binding(prog, 1);
                if (found != nullptr && (found->prog != prog || found->proc(1) == nullptr)) ++wrong;
            }
        }
    });
    std::array<std::thread, 2> writers;
    for (std::uint32_t w = 0; w < writers.size(); ++w) {
        writers[w] = std::thread([&wrong, w] {
            const rpcrdma_proc proc = proc_of(1, kData, kNone);
            for (std::uint32_t i = 0; i < kEach; ++i) {
                const rpcrdma_ulb ulb RPCRDMA_ULB(kFirst + 2 * i + w, 1, 1, &proc);
                if (rpcrdma_ulb_register(&ulb) != 0) ++wrong;
            }
        });
    }
    for (std::thread& each : writers)
        each.join();
    stop = true;
    reader.join();
    EXPECT_EQ(wrong.load(), 0u);
    for (std::uint32_t prog = kFirst; prog < kFirst + 2 * kEach; ++prog)
        ASSERT_NE(find_binding(prog, 1), nullptr) << prog;
}

// Items of types that rpcgen made, encoded and decoded as they come over RDMA and as over TCP.
template <class T>
using Routine = bool_t (*)(XDR*, T*);

template <class T>
std::vector<std::byte> by_xdrmem(Routine<T> routine, T object) {
    std::vector<std::byte> room(1 << 20);
    XDR xdr{};
    xdrmem_create(&xdr, as_chars(room.data()), static_cast<u_int>(room.size()), XDR_ENCODE);
    EXPECT_TRUE(routine(&xdr, &object));
    room.resize(XDR_GETPOS(&xdr));
    return room;
}
std::vector<std::byte> flat(const sunrpc::XdrBuf& buf) {
    std::vector<std::byte> out(buf.head.begin(), buf.head.end());
    out.insert(out.end(), buf.payload.begin(), buf.payload.end());
    out.resize(out.size() + buf.pad());
    out.insert(out.end(), buf.tail.begin(), buf.tail.end());
    return out;
}

// Through the stream and back: `bytes` are left out of the message and found again, with their pad
// in the chunk and without, by position and by binding, into memory that xdr_free frees.
template <class T>
void round_trip(Routine<T> routine, T object, const rpcrdma_ddp& ddp, std::size_t bytes) {
    const std::vector<std::byte> want = by_xdrmem(routine, object);
    std::vector<std::byte> room(1 << 16);
    sunrpc::XdrEncodeStream encode(room);
    encode.set_item(ddp_item(ddp), &object);
    ASSERT_TRUE(routine(encode.xdr(), &object));
    ASSERT_FALSE(encode.failed());
    sunrpc::XdrBuf message = encode.message();
    EXPECT_EQ(message.payload.size(), bytes);
    EXPECT_EQ(XDR_GETPOS(encode.xdr()), want.size());  // of the whole message
    EXPECT_EQ(flat(message), want);

    std::vector<std::byte> chunk(message.payload.begin(), message.payload.end());
    for (const bool with_pad : {false, true}) {
        if (with_pad) chunk.resize(align_up(chunk.size(), 4));
        message.payload = chunk;
        for (const auto position : {static_cast<std::uint32_t>(message.head.size()),
                                    sunrpc::XdrDecodeStream::kByBinding}) {
            T back{};
            sunrpc::XdrDecodeStream decode(message, position);
            decode.set_item_copied(ddp_item(ddp), &back);
            ASSERT_TRUE(routine(decode.xdr(), &back));
            EXPECT_FALSE(decode.failed());
            EXPECT_EQ(decode.remaining(), 0u);
            EXPECT_EQ(decode.payload_copied(), bytes);
            EXPECT_EQ(by_xdrmem(routine, back), want);
            XDR release{};
            release.x_op = XDR_FREE;
            routine(&release, &back);
        }
    }
}
const std::array<std::uint32_t, 13> kSizes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 65535, 65536, 65537};

TEST(Items, DataBetweenOthers) {
    std::vector<char> data(70000, 'd');
    std::array<char, 64> handle{};
    for (const std::uint32_t size : kSizes) {
        for (const u_int handle_bytes : {0u, 3u, 64u}) {
            wargs args{};
            args.fh = {handle_bytes, handle.data()};
            args.data = {size, data.data()};
            args.trailer = 0xABCD;
            round_trip<wargs>(xdr_wargs, args, RPCRDMA_DDP(wargs, data.data_val), size);
        }
    }
}

TEST(Items, ArmOfAUnion) {
    std::vector<char> data(70000, 'd');
    constexpr rpcrdma_ddp kItem RPCRDMA_DDP(rres, rres_u.resok.data.data_val);
    for (const std::uint32_t size : kSizes) {
        for (const bool_t follows : {FALSE, TRUE}) {
            rres res{};
            res.status = ST_OK;
            res.rres_u.resok.attr.follows = follows;
            res.rres_u.resok.data = {size, data.data()};
            round_trip<rres>(xdr_rres, res, kItem, size);
        }
    }
    rres failed{};
    failed.status = ST_ERR;
    failed.rres_u.fail.follows = TRUE;
    std::memset(&failed.rres_u.fail.post_attr_u, 0x5A, sizeof failed.rres_u.fail.post_attr_u);
    round_trip<rres>(xdr_rres, failed, kItem, 0);
}

// Strings that are empty do not make another one the item.
TEST(Items, StringAmongOthers) {
    const std::string path(4096, 'p');
    for (const std::uint32_t size : {0u, 1u, 2u, 3u, 4u, 5u, 1023u, 4096u}) {
        for (const char* const name : {"", "n", "longer"}) {
            std::string name_text = name;
            std::string path_text = path.substr(0, size);
            largs args{};
            args.name = name_text.data();
            args.path = path_text.data();
            round_trip<largs>(xdr_largs, args, RPCRDMA_DDP_STRING(largs, path, 4096), size);
        }
    }
}

// A typedef, and a string that is the whole of the results (at most 9000 bytes: xdr_wrapstring).
TEST(Items, WholeOfTheResults) {
    std::vector<char> data(70000, 'd');
    for (const std::uint32_t size : kSizes) {
        round_trip<blob>(xdr_blob, {size, data.data()}, RPCRDMA_DDP(blob, blob_val), size);
    }
    constexpr rpcrdma_ddp kItem{0, 0, 9000, nullptr};
    for (const std::uint32_t size : {0u, 1u, 3u, 4u, 8999u, 9000u}) {
        std::string text(size, 's');
        round_trip<char*>(xdr_wrapstring, text.data(), kItem, size);
    }
}

// The arm of an error leaves the slot as it was, or writes over it: what was put there for the item
// must not be freed, nor what is not a pointer any more be followed.
TEST(Items, ErrorArmWithASlotThatWasSet) {
    constexpr rpcrdma_ddp kItem RPCRDMA_DDP(rres, rres_u.resok.data.data_val);
    for (const bool_t follows : {FALSE, TRUE}) {
        rres failed{};
        failed.status = ST_ERR;
        failed.rres_u.fail.follows = follows;
        std::memset(&failed.rres_u.fail.post_attr_u, 0x5A, sizeof failed.rres_u.fail.post_attr_u);
        std::vector<std::byte> bytes = by_xdrmem<rres>(xdr_rres, failed);
        sunrpc::XdrBuf message;
        message.head = bytes;
        std::vector<std::byte> room(100);
        rres back{};
        sunrpc::XdrDecodeStream decode(message, sunrpc::XdrDecodeStream::kByBinding);
        decode.set_item(ddp_item(kItem), &back, room);
        ASSERT_TRUE(xdr_rres(decode.xdr(), &back));
        EXPECT_FALSE(decode.failed());
        decode.clear_item();
        EXPECT_NE(as_bytes(back.rres_u.resok.data.data_val), room.data());
        XDR release{};
        release.x_op = XDR_FREE;
        xdr_rres(&release, &back);
    }
}

// A result that lies behind pointers, with no place of its own in the struct: here, the second of a
// list. Who decodes it has decoded the list up to it.
bool_t is_name_of_second(const void* object, const char* at, std::uint32_t /*bytes*/) {
    const auto* const list = static_cast<const dirlist*>(object);
    const dirent* const second = list->first != nullptr ? list->first->next : nullptr;
    return second != nullptr && second->name == at;
}
TEST(Items, BehindPointersByAPredicate) {
    std::string first = "first";
    std::string second = "the second";
    std::string third = "third";
    dirent c{3, third.data(), nullptr};
    dirent b{2, second.data(), &c};
    dirent a{1, first.data(), &b};
    const rpcrdma_ddp item{-1, 0, 0, is_name_of_second};
    round_trip<dirlist>(xdr_dirlist, {3, &a}, item, second.size());
    b.next = nullptr;
    round_trip<dirlist>(xdr_dirlist, {2, &a}, item, second.size());
    a.next = nullptr;
    round_trip<dirlist>(xdr_dirlist, {1, &a}, item, 0);
}

}  // namespace
}  // namespace nfsrdma::tirpc
