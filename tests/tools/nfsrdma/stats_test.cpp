#include "tools/nfsrdma/stats.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(Stats, JsonHasThroughputAndKeysPerRpc) {
    xprtrdma::TransportCounters rdma;
    rdma.calls = 12;
    rdma.write_chunk_calls = 10;
    pools::IoCounters io;
    io.binds = io.remote_invalidations = 10;
    nfs::client::ClientCounters nfs;
    nfs.commits = 5;
    nfs.rewrites = 6;
    nfs.resolved = 7;
    nfs.unresolved = 8;
    JsonObject object;
    object.add("files", 3);
    add_to(object, statistics_of(rdma, io, {}, nfs, Moved{2.0, 1000}));
    const std::string json = object.line();
    EXPECT_EQ(json.substr(0, 10), "{\"files\":3");
    EXPECT_EQ(json.substr(json.size() - 2), "}\n");
    for (const char* member :
         {"\"bytes_per_second\":500", "\"calls\":12", "\"keys_per_rpc\":1.000", "\"binds\":10",
          "\"remote_invalidations\":10", "\"local_invalidations\":0", "\"commits\":5",
          "\"rewrites\":6", "\"resolved\":7", "\"unresolved\":8"}) {
        EXPECT_NE(json.find(member), std::string::npos) << member << " in " << json;
    }
}

TEST(Stats, NothingMovedIsNoDivision) {
    const std::string text = to_text(statistics_of({}, {}, {}, {}, {}));
    EXPECT_NE(text.find("bytes_per_second"), std::string::npos);
    EXPECT_EQ(text.find("nan"), std::string::npos);
    EXPECT_EQ(text.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::tool
