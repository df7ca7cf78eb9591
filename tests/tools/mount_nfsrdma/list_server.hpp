#pragma once
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "nfs/binding.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/svc.hpp"

namespace nfsrdma::testing {

// A server of one directory that lists what it is told to, however wrong.
struct ListServer {
    struct Entry {
        std::string name;
        std::uint64_t cookie = 0;
    };
    struct Page {
        std::vector<Entry> entries;
        bool eof = false;
        nfsstat3 status = NFS3_OK;
    };
    struct Question {
        std::uint64_t cookie = 0;
        char verifier = 0;  // its first byte
        bool plus = false;
    };

    ListServer() {
        for (std::uint32_t i = 0; i < table.size(); ++i) {
            table.at(i).info = nfs::nfs3_procs()[i];
            table.at(i).handle = [](sunrpc::SvcCall& call) noexcept { call.fail(5); };
        }
        table.at(NFSPROC3_READDIRPLUS).handle = [](sunrpc::SvcCall& call) noexcept {
            const auto& args = *static_cast<READDIRPLUS3args*>(call.args);
            auto& res = *static_cast<READDIRPLUS3res*>(call.res);
            of(call).answer(call, {args.cookie, args.cookieverf[0], true}, res,
                            res.READDIRPLUS3res_u.resok);
        };
        table.at(NFSPROC3_READDIR).handle = [](sunrpc::SvcCall& call) noexcept {
            const auto& args = *static_cast<READDIR3args*>(call.args);
            auto& res = *static_cast<READDIR3res*>(call.res);
            of(call).answer(call, {args.cookie, args.cookieverf[0], false}, res,
                            res.READDIR3res_u.resok);
        };
        dispatcher.add({NFS3_PROGRAM, NFS_V3, table, 0, 0, 0, this});
    }
    static ListServer& of(sunrpc::SvcCall& call) {
        return *static_cast<ListServer*>(call.program->context);
    }
    // An honest one: `names` under the cookies 1, 2 ..., so many in a reply.
    void serve(const std::vector<std::string>& names, std::size_t in_a_reply) {
        page = [names, in_a_reply](const Question& question) {
            Page out;
            for (std::size_t i = question.cookie; i < names.size(); ++i) {
                if (out.entries.size() == in_a_reply) return out;
                out.entries.push_back({names[i], i + 1});
            }
            out.eof = true;
            return out;
        };
    }

    std::function<Page(const Question& question)> page;
    std::vector<Question> asked;
    char verifier = 7;
    bool tells_nodes = true;
    std::array<sunrpc::SvcProcedure, 22> table;
    sunrpc::SvcDispatcher dispatcher;

  private:
    static void fill(entry3& /*entry*/, bool /*nodes*/) {}
    static void fill(entryplus3& entry, bool nodes) {
        if (!nodes) return;
        entry.name_attributes.attributes_follow = TRUE;
        entry.name_attributes.post_op_attr_u.attributes.type = NF3REG;
        entry.name_attributes.post_op_attr_u.attributes.fileid = entry.fileid;
        entry.name_handle.handle_follows = TRUE;
        entry.name_handle.post_op_fh3_u.handle.data = {static_cast<u_int>(std::strlen(entry.name)),
                                                       entry.name};
    }
    template <class Res, class Ok>
    void answer(sunrpc::SvcCall& call, const Question& question, Res& res, Ok& ok) {
        asked.push_back(question);
        Page said = page(question);
        res.status = said.status;
        using One = std::remove_pointer_t<decltype(ok.reply.entries)>;
        std::vector<One> entries(said.entries.size());
        if (said.status == NFS3_OK) {
            for (std::size_t i = 0; i < entries.size(); ++i) {
                entries[i].name = said.entries[i].name.data();
                entries[i].cookie = said.entries[i].cookie;
                entries[i].fileid = 100 + i;
                fill(entries[i], tells_nodes);
                if (i != 0) entries[i - 1].nextentry = &entries[i];
            }
            ok.reply.entries = entries.empty() ? nullptr : entries.data();
            ok.reply.eof = said.eof ? TRUE : FALSE;
            ok.cookieverf[0] = verifier;
        }
        call.reply();
    }
};

}  // namespace nfsrdma::testing
