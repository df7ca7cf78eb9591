#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "nfs/binding.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/svc.hpp"

namespace nfsrdma::testing {

// A server that answers with the names it is told to, whatever they are.
struct HostileServer {
    struct Item {
        std::string name;
        ftype3 type;
        std::string text;   // of a link or a file
        std::string child;  // of a directory: the handle of its listing
    };
    HostileServer() {
        for (std::uint32_t i = 0; i < nfs_table.size(); ++i) {
            nfs_table.at(i).info = nfs::nfs3_procs()[i];
            nfs_table.at(i).handle = [](sunrpc::SvcCall& call) noexcept { call.fail(5); };
        }
        for (std::uint32_t i = 0; i < mount_table.size(); ++i) {
            mount_table.at(i).info = nfs::mount3_procs()[i];
            mount_table.at(i).handle = [](sunrpc::SvcCall& call) noexcept { call.fail(5); };
        }
        mount_table.at(MOUNTPROC3_MNT).handle = on_mnt;
        nfs_table.at(NFSPROC3_FSINFO).handle = on_fsinfo;
        nfs_table.at(NFSPROC3_GETATTR).handle = on_getattr;
        nfs_table.at(NFSPROC3_READDIRPLUS).handle = on_readdirplus;
        nfs_table.at(NFSPROC3_READLINK).handle = on_readlink;
        nfs_table.at(NFSPROC3_READ).handle = on_read;
        nfs_table.at(NFSPROC3_LOOKUP).handle = on_lookup;
        dispatcher.add({NFS3_PROGRAM, NFS_V3, nfs_table, 0, 0, 0, this});
        dispatcher.add({MOUNT3_PROGRAM, MOUNT_V3, mount_table, 0, 0, 0, this});
    }
    static HostileServer& of(sunrpc::SvcCall& call) {
        return *static_cast<HostileServer*>(call.program->context);
    }
    static std::string text_of(const nfs_fh3& fh) { return {fh.data.data_val, fh.data.data_len}; }
    static void on_mnt(sunrpc::SvcCall& call) noexcept {
        static char root[] = "root";
        auto& res = *static_cast<mountres3*>(call.res);
        res.mountres3_u.mountinfo.fhandle = {4, root};
        call.reply();
    }
    static void on_fsinfo(sunrpc::SvcCall& call) noexcept {
        auto& res = *static_cast<FSINFO3res*>(call.res);
        res.FSINFO3res_u.resok.rtmax = res.FSINFO3res_u.resok.wtmax = 65536;
        call.reply();
    }
    static void on_getattr(sunrpc::SvcCall& call) noexcept {
        auto& res = *static_cast<GETATTR3res*>(call.res);
        res.GETATTR3res_u.resok.obj_attributes.type = NF3DIR;
        call.reply();
    }
    static void on_readdirplus(sunrpc::SvcCall& call) noexcept {
        HostileServer& self = of(call);
        ++self.listings_asked;
        if (self.jukebox_left != 0) {
            --self.jukebox_left;
            static_cast<READDIRPLUS3res*>(call.res)->status = NFS3ERR_JUKEBOX;
            call.reply();
            return;
        }
        auto& args = *static_cast<READDIRPLUS3args*>(call.args);
        auto& resok = static_cast<READDIRPLUS3res*>(call.res)->READDIRPLUS3res_u.resok;
        std::vector<Item>& items = self.listings[text_of(args.dir)];
        std::vector<entryplus3> entries(items.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
            entryplus3& entry = entries[i];
            Item& item = items[i];
            entry.name = item.name.data();
            entry.cookie = i + 1;
            entry.name_attributes.attributes_follow = TRUE;
            fattr3& attr = entry.name_attributes.post_op_attr_u.attributes;
            attr.type = item.type;
            attr.mode = 04755;
            attr.size = attr.used = item.type == NF3REG ? item.text.size() : 0;
            attr.mtime.seconds = 1000;
            if (self.tells_nothing) {
                entry.name_attributes.attributes_follow = FALSE;
                entry.nextentry = i + 1 < items.size() ? &entries[i + 1] : nullptr;
                continue;
            }
            entry.name_handle.handle_follows = TRUE;
            std::string& handle = item.type == NF3DIR ? item.child : item.text;
            entry.name_handle.post_op_fh3_u.handle.data = {static_cast<u_int>(handle.size()),
                                                           handle.data()};
            entry.nextentry = i + 1 < items.size() ? &entries[i + 1] : nullptr;
        }
        resok.reply.entries = entries.empty() ? nullptr : entries.data();
        resok.reply.eof = self.never_ends ? FALSE : TRUE;
        call.reply();
    }
    static void on_readlink(sunrpc::SvcCall& call) noexcept {
        static std::string text;
        text = text_of(static_cast<READLINK3args*>(call.args)->symlink);
        static_cast<READLINK3res*>(call.res)->READLINK3res_u.resok.data = text.data();
        call.reply();
    }
    // Every name leads to a link that leads out.
    static void on_lookup(sunrpc::SvcCall& call) noexcept {
        static char link[] = "../../outside";
        auto& resok = static_cast<LOOKUP3res*>(call.res)->LOOKUP3res_u.resok;
        resok.object.data = {sizeof link - 1, link};
        resok.obj_attributes.attributes_follow = TRUE;
        resok.obj_attributes.post_op_attr_u.attributes.type = NF3LNK;
        call.reply();
    }
    static void on_read(sunrpc::SvcCall& call) noexcept {
        HostileServer& self = of(call);
        ++self.reads;
        const std::string text = text_of(static_cast<READ3args*>(call.args)->file);
        auto& resok = static_cast<READ3res*>(call.res)->READ3res_u.resok;
        auto room = call.get_result_payload(static_cast<std::uint32_t>(text.size()));
        if (!room) {
            call.fail(5);
            return;
        }
        std::memcpy(room->data(), text.data(), text.size());
        resok.data.data_len = static_cast<u_int>(text.size());
        resok.data.data_val = as_chars(room->data());
        resok.count = resok.data.data_len;
        resok.eof = TRUE;
        resok.file_attributes.attributes_follow = TRUE;
        fattr3& attr = resok.file_attributes.post_op_attr_u.attributes;
        attr.type = NF3REG;
        attr.mode = 0644;
        attr.size = attr.used = text.size();
        attr.mtime.seconds = 1000;
        // It has changed since it was looked at, so many times.
        attr.mtime.seconds += std::min(self.reads, self.changes);
        attr.ctime = attr.mtime;
        call.reply();
    }
    bool never_ends = false, tells_nothing = false;
    std::uint32_t jukebox_left = 0, changes = 0, reads = 0, listings_asked = 0;
    std::map<std::string, std::vector<Item>> listings;
    std::array<sunrpc::SvcProcedure, 22> nfs_table;
    std::array<sunrpc::SvcProcedure, 6> mount_table;
    sunrpc::SvcDispatcher dispatcher;
};

}  // namespace nfsrdma::testing
