#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "nfs/binding.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/svc.hpp"

namespace nfsrdma::testing {

// A peer that answers as a server may but ours does not: short reads and writes, verifiers that
// change, jukebox, READDIR only.
struct FakeServer {
    FakeServer() {
        for (std::uint32_t i = 0; i < table.size(); ++i) {
            table.at(i).info = nfs::nfs3_procs()[i];
            table.at(i).handle = [](sunrpc::SvcCall& call) noexcept { call.fail(5); };
        }
        table.at(NFSPROC3_READ).handle = on_read;
        table.at(NFSPROC3_WRITE).handle = on_write;
        table.at(NFSPROC3_COMMIT).handle = on_commit;
        table.at(NFSPROC3_GETATTR).handle = on_getattr;
        table.at(NFSPROC3_READDIRPLUS).handle = on_readdirplus;
        table.at(NFSPROC3_READDIR).handle = on_readdir;
        program.prog = NFS3_PROGRAM;
        program.vers = NFS_V3;
        program.procedures = table;
        program.context = this;
        dispatcher.add(program);
    }
    static FakeServer& of(sunrpc::SvcCall& call) {
        return *static_cast<FakeServer*>(call.program->context);
    }

    void note(const sunrpc::SvcCall& call) {
        callers.emplace_back(call.proc_number, call.flavor == sunrpc::AuthFlavor::sys
                                                   ? static_cast<int>(call.sys.uid)
                                                   : -1);
    }
    static void on_read(sunrpc::SvcCall& call) noexcept {
        FakeServer& self = of(call);
        self.note(call);
        ++self.reads;
        const auto& args = *static_cast<READ3args*>(call.args);
        auto& res = *static_cast<READ3res*>(call.res);
        if (self.read_status != NFS3_OK && args.offset >= self.read_fails_from) {
            res.status = self.read_status;
            call.reply();
            return;
        }
        READ3resok& ok = res.READ3res_u.resok;
        const std::uint64_t size = self.file.size();
        std::uint64_t count =
            args.offset >= size ? 0 : std::min<std::uint64_t>(args.count, size - args.offset);
        count = std::min<std::uint64_t>(count, self.read_most);
        self.read_bytes += count;
        if (count != 0) {
            Result<std::span<std::byte>> room =
                call.get_result_payload(static_cast<std::uint32_t>(count));
            if (!room) {
                call.fail(5);
                return;
            }
            std::memcpy(room->data(), self.file.data() + args.offset, count);
            ok.data.data_val = as_chars(room->data());
        }
        ok.data.data_len = static_cast<u_int>(count);
        ok.count = static_cast<count3>(count) + self.lie_about_count;
        ok.eof = self.tells_eof && args.offset + count >= size ? TRUE : FALSE;
        call.reply();
    }
    static void on_write(sunrpc::SvcCall& call) noexcept {
        FakeServer& self = of(call);
        self.note(call);
        ++self.writes;
        const auto& args = *static_cast<WRITE3args*>(call.args);
        auto& res = *static_cast<WRITE3res*>(call.res);
        if (self.write_status != NFS3_OK) {
            res.status = self.write_status;
            call.reply();
            return;
        }
        WRITE3resok& ok = res.WRITE3res_u.resok;
        const std::uint32_t count = std::min(args.data.data_len, self.write_most);
        if (self.file.size() < args.offset + count) self.file.resize(args.offset + count);
        if (count != 0) std::memcpy(self.file.data() + args.offset, args.data.data_val, count);
        ok.count = count;
        ok.committed = self.always_stable ? FILE_SYNC : self.never_stable ? UNSTABLE : args.stable;
        if (ok.committed != UNSTABLE) self.safe = self.file;
        std::memset(ok.verf, self.verifier, sizeof ok.verf);
        if (self.writes == self.restart_after_write ||
            (self.restart_every_writes != 0 && self.writes % self.restart_every_writes == 0))
            self.restart();
        call.reply();
    }
    static void on_commit(sunrpc::SvcCall& call) noexcept {
        FakeServer& self = of(call);
        self.note(call);
        ++self.commits;
        if (self.commits <= self.restarts_before_commit) self.restart();
        self.safe = self.file;
        auto& res = *static_cast<COMMIT3res*>(call.res);
        res.status = self.commit_status;
        std::memset(res.COMMIT3res_u.resok.verf, self.verifier, NFS3_WRITEVERFSIZE);
        call.reply();
    }
    static void on_getattr(sunrpc::SvcCall& call) noexcept {
        FakeServer& self = of(call);
        self.note(call);
        auto& res = *static_cast<GETATTR3res*>(call.res);
        if (self.jukebox_left != 0) {
            --self.jukebox_left;
            res.status = NFS3ERR_JUKEBOX;
        }
        call.reply();
    }
    static void on_readdirplus(sunrpc::SvcCall& call) noexcept {
        FakeServer& self = of(call);
        ++self.listings;
        auto& res = *static_cast<READDIRPLUS3res*>(call.res);
        if (self.readdir_only) {
            res.status = NFS3ERR_NOTSUPP;
        } else if (self.stuck_cookie) {
            static char name[] = "same";
            static entryplus3 entry{};
            entry.name = name;
            entry.cookie = 7;
            res.READDIRPLUS3res_u.resok.reply.entries = &entry;
        } else if (self.cookie_circle != 0) {
            // Ever new names, and cookies that lead in a circle; or on and on.
            const auto& args = *static_cast<READDIRPLUS3args*>(call.args);
            static std::string name;
            static entryplus3 entry{};
            name = "n" + std::to_string(self.listings);
            entry.name = name.data();
            entry.cookie = args.cookie < self.cookie_circle ? args.cookie + 1 : 5;
            res.READDIRPLUS3res_u.resok.reply.entries = &entry;
        }
        call.reply();  // otherwise no entries and no end
    }
    static void on_readdir(sunrpc::SvcCall& call) noexcept {
        FakeServer& self = of(call);
        ++self.listings;
        const auto& args = *static_cast<READDIR3args*>(call.args);
        auto& res = *static_cast<READDIR3res*>(call.res);
        static char name[] = "only";
        static entry3 entry{};
        entry.name = name;
        entry.fileid = 5;
        entry.cookie = 1;
        if (args.cookie == 0) {
            res.READDIR3res_u.resok.reply.entries = &entry;
        } else {
            res.READDIR3res_u.resok.reply.eof = TRUE;
        }
        call.reply();
    }
    void restart() {
        ++verifier;
        // What was not committed is lost.
        std::fill(file.begin(), file.end(), 0);
        std::copy(safe.begin(), safe.end(), file.begin());
    }

    std::array<sunrpc::SvcProcedure, 22> table;
    sunrpc::SvcProgram program;
    sunrpc::SvcDispatcher dispatcher;
    std::vector<char> file, safe;  // safe: as of the last COMMIT
    std::uint32_t read_most = UINT32_MAX, write_most = UINT32_MAX;
    bool tells_eof = true, always_stable = false, never_stable = false, readdir_only = false,
         stuck_cookie = false;
    std::uint64_t cookie_circle = 0;  // back to 5 behind this one
    u_int lie_about_count = 0;
    int verifier = 1;
    nfsstat3 write_status = NFS3_OK, commit_status = NFS3_OK, read_status = NFS3_OK;
    std::uint64_t read_bytes = 0, read_fails_from = 0;
    std::uint32_t reads = 0, writes = 0, commits = 0, listings = 0;
    std::uint32_t restart_after_write = 0, restart_every_writes = 0, restarts_before_commit = 0;
    std::uint32_t jukebox_left = 0;
    std::vector<std::pair<std::uint32_t, int>> callers;  // procedure and uid; -1: AUTH_NONE
};

}  // namespace nfsrdma::testing
