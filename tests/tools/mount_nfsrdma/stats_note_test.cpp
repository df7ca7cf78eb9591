#include "tools/mount_nfsrdma/stats_note.hpp"

#include <cstring>
#include <fcntl.h>
#include <linux/fuse.h>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "nfs/nfs3_types.hpp"

namespace nfsrdma::mount {
namespace {

template <class T>
std::vector<std::byte> request(std::uint32_t opcode, const T& body) {
    fuse_in_header header{};
    header.opcode = opcode;
    std::vector<std::byte> out(sizeof header + sizeof body);
    std::memcpy(out.data(), &header, sizeof header);
    std::memcpy(out.data() + sizeof header, &body, sizeof body);
    return out;
}

TEST(StatsNote, RequestsAreEvents) {
    struct Row {
        std::uint32_t opcode;
        Event event;
    };
    for (const Row& row :
         {Row{FUSE_LOOKUP, Event::vfs_lookup}, Row{FUSE_GETATTR, Event::inode_revalidate},
          Row{FUSE_SETATTR, Event::vfs_setattr}, Row{FUSE_ACCESS, Event::vfs_access},
          Row{FUSE_OPEN, Event::vfs_open}, Row{FUSE_CREATE, Event::vfs_open},
          Row{FUSE_READDIRPLUS, Event::vfs_get_dents}, Row{FUSE_FLUSH, Event::vfs_flush},
          Row{FUSE_FSYNC, Event::vfs_fsync}, Row{FUSE_RELEASE, Event::vfs_release}}) {
        const auto stats = std::make_unique<LoopStats>();
        note_request(*stats, request(row.opcode, std::uint64_t{0}));
        EXPECT_EQ(stats->of(row.event), 1u) << row.opcode;
    }
    const auto stats = std::make_unique<LoopStats>();
    note_request(*stats, request(FUSE_FORGET, std::uint64_t{0}));
    for (std::uint32_t i = 0; i < kEvents; ++i)
        EXPECT_EQ(stats->of(static_cast<Event>(i)), 0u);
}

TEST(StatsNote, BytesAreOfReadsAndWrites) {
    const auto stats = std::make_unique<LoopStats>();
    fuse_read_in read{};
    read.size = 4096;
    note_request(*stats, request(FUSE_READ, read));
    read.flags = O_DIRECT;
    read.size = 100;
    note_request(*stats, request(FUSE_READ, read));
    fuse_write_in write{};
    write.size = 7;
    note_request(*stats, request(FUSE_WRITE, write));
    write.flags = O_DIRECT | O_WRONLY;
    write.size = 8;
    note_request(*stats, request(FUSE_WRITE, write));
    EXPECT_EQ(stats->of(Bytes::normal_read), 4096u);
    EXPECT_EQ(stats->of(Bytes::direct_read), 100u);
    EXPECT_EQ(stats->of(Bytes::normal_write), 7u);
    EXPECT_EQ(stats->of(Bytes::direct_write), 8u);
    EXPECT_EQ(stats->of(Event::vfs_read_pages), 2u);
    EXPECT_EQ(stats->of(Event::vfs_write_pages), 2u);
}

TEST(StatsNote, ShortRequestsAreNone) {
    const auto stats = std::make_unique<LoopStats>();
    const std::vector<std::byte> whole = request(FUSE_WRITE, fuse_write_in{});
    note_request(*stats, {});
    note_request(*stats, std::span(whole).first(sizeof(fuse_in_header) - 1));
    EXPECT_EQ(stats->of(Event::vfs_write_pages), 0u);
    note_request(*stats, std::span(whole).first(sizeof(fuse_in_header) + 8));
    EXPECT_EQ(stats->of(Event::vfs_write_pages), 1u);
}

TEST(StatsNote, PayloadIsWhatTheServerMoved) {
    const auto stats = std::make_unique<LoopStats>();
    READ3res read{};
    read.READ3res_u.resok.count = 1000;
    sunrpc::Call call;
    call.proc_number = NFSPROC3_READ;
    note_payload(*stats, call);  // without results
    call.res = &read;
    note_payload(*stats, call);
    WRITE3res write{};
    write.WRITE3res_u.resok.count = 55;
    call.proc_number = NFSPROC3_WRITE;
    call.res = &write;
    note_payload(*stats, call);
    call.proc_number = NFSPROC3_GETATTR;
    note_payload(*stats, call);
    EXPECT_EQ(stats->of(Bytes::server_read), 1000u);
    EXPECT_EQ(stats->of(Bytes::server_write), 55u);
}

}  // namespace
}  // namespace nfsrdma::mount
