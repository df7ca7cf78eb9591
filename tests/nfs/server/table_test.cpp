#include "nfs/server/table.hpp"

#include "nfs/mount3.hpp"
#include "nfs/server/preset.hpp"
#include "tests/nfs/nfs_world.hpp"
#include "tests/support/alloc_counter.hpp"

namespace nfsrdma::testing {
namespace {

TEST(Table, EveryProcedureIsThere) {
    nfs::Server server;
    for (const sunrpc::SvcProgram& program :
         {nfs::nfs3_program(server), nfs::mount3_program(server)}) {
        EXPECT_EQ(program.procedures.size(), program.prog == NFS3_PROGRAM ? 22u : 6u);
        for (const sunrpc::SvcProcedure& procedure : program.procedures) {
            EXPECT_NE(procedure.info.name, nullptr);
            EXPECT_NE(procedure.handle, nullptr);
            EXPECT_NE(procedure.preset, nullptr);
        }
        EXPECT_GE(program.preset_bytes, nfs::kPresetBytes);
        EXPECT_EQ(program.context, &server);
    }
}

class TableOnBackends : public NfsTest {
  protected:
    // Calls again and again; how many allocations in the last hundred times.
    template <class Args, class Res>
    std::uint64_t allocations(std::uint32_t number, const Args& args) {
        // Results with a handle would be allocated by the client: room for it is preset.
        std::array<char, NFS3_FHSIZE> fh_room{};
        Res res{};
        bool done = false;
        sunrpc::Call call;
        call.proc = &nfs::nfs3_procs()[number];
        call.proc_number = number;
        call.args = &args;
        call.args_in_payload = false;
        call.res = &res;
        call.user = &done;
        call.done = [](sunrpc::Call& c, Result<void> result) noexcept {
            *static_cast<bool*>(c.user) = static_cast<bool>(result);
        };
        const auto once = [&] {
            res = Res{};
            if constexpr (std::is_same_v<Res, LOOKUP3res>) {
                res.LOOKUP3res_u.resok.object.data.data_val = fh_room.data();
            }
            done = false;
            EXPECT_TRUE(static_cast<bool>(w.nfs->call(call)));
            for (int i = 0; i < 100 && !done; ++i)
                w.world.loop->run_once(kNsPerMs);
            EXPECT_TRUE(done);
            EXPECT_EQ(res.status, NFS3_OK);
        };
        for (int i = 0; i < 10; ++i)
            once();
        const test::AllocCounter counter;
        for (int i = 0; i < 100; ++i)
            once();
        return counter.count();
    }
};
NR_ON_BACKENDS(TableOnBackends);

TEST_P(TableOnBackends, HotProceduresAllocateNothing) {
    if (!test::kAllocCounterWorks) GTEST_SKIP() << "needs a build without sanitizers";
    const Handle file = w.file(w.root, "a-file-with-a-long-name", "x");
    const std::string name = "a-file-with-a-long-name";
    EXPECT_EQ((allocations<GETATTR3args, GETATTR3res>(NFSPROC3_GETATTR, {file.fh()})), 0u);
    EXPECT_EQ((allocations<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {file.fh(), 0x3f})), 0u);
    EXPECT_EQ((allocations<COMMIT3args, COMMIT3res>(NFSPROC3_COMMIT, {file.fh(), 0, 0})), 0u);
    if (GetParam() == Backend::posix) {
        EXPECT_EQ((allocations<LOOKUP3args, LOOKUP3res>(NFSPROC3_LOOKUP, {at(w.root, name)})), 0u);
    }
}

}  // namespace
}  // namespace nfsrdma::testing
