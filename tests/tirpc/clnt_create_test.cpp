// How CLIENTs are made, and how that fails.
#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "tests/tirpc/clnt_world.hpp"

namespace nfsrdma::tirpc::test {
namespace {

TEST(ClntCreate, ByNameAndByAddress) {
    Server server;
    const Client by_text(server.connect());
    EXPECT_EQ(by_text.null(), RPC_SUCCESS);
    const rpcrdma_opts opts = server.opts();
    const Client by_address(clnt_rdma_tli_create(server.address().sa(), server.address().sa_len(),
                                                 kProg, kVers, &opts));
    ASSERT_NE(by_address.clnt, nullptr) << rpcrdma_strerror();
    EXPECT_EQ(by_address.null(), RPC_SUCCESS);
    EXPECT_STREQ(by_address.clnt->cl_netid, "rdma");
}

TEST(ClntCreate, AnUnknownHostIsUnknown) {
    EXPECT_EQ(clnt_rdma_create("no-such-host.invalid", kProg, kVers, nullptr), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_UNKNOWNHOST);
    EXPECT_STRNE(rpcrdma_strerror(), "");
    EXPECT_EQ(clnt_rdma_create(nullptr, kProg, kVers, nullptr), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_UNKNOWNHOST);
    EXPECT_EQ(clnt_rdma_create("", kProg, kVers, nullptr), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_UNKNOWNHOST);
}

TEST(ClntCreate, OptionsWithoutSenseAreEinval) {
    rpcrdma_opts opts = RPCRDMA_OPTS_INIT;
    opts.size = 4;
    EXPECT_EQ(clnt_rdma_create("127.0.7.1", kProg, kVers, &opts), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_SYSTEMERROR);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, EINVAL);
    EXPECT_NE(std::string(rpcrdma_strerror()).find("size"), std::string::npos);
}

TEST(ClntCreate, WhereNobodyListensItIsRefusedAndReadsWell) {
    Server server;
    rpcrdma_opts opts = server.opts();
    opts.port = static_cast<std::uint16_t>(opts.port == 1000 ? 1001 : 1000);
    EXPECT_EQ(clnt_rdma_create("127.0.7.1", kProg, kVers, &opts), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_SYSTEMERROR);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, ECONNREFUSED);
    const std::string text = clnt_spcreateerror("here");
    EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
    EXPECT_NE(std::string(rpcrdma_strerror()).find("127.0.7.1:100"), std::string::npos)
        << rpcrdma_strerror();
}

TEST(ClntCreate, WithoutADeviceAtTheOtherEndItTimesOut) {
    Server server;
    rpcrdma_opts opts = server.opts();
    opts.peer_udp_port = 1;  // nobody's
    opts.connect_timeout_ms = 300;
    EXPECT_EQ(clnt_rdma_create("127.0.7.1", kProg, kVers, &opts), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_SYSTEMERROR);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, ETIMEDOUT) << rpcrdma_strerror();
}

TEST(ClntCreate, ADeviceThatIsNotThereIsEnodev) {
    rpcrdma_opts opts = RPCRDMA_OPTS_INIT;
    opts.device = "rdmacore:nfsrdma_none9";
    EXPECT_EQ(clnt_rdma_create("127.0.7.1", kProg, kVers, &opts), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_SYSTEMERROR);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, ENODEV) << rpcrdma_strerror();
    EXPECT_NE(std::string(rpcrdma_strerror()).find("nfsrdma_none9"), std::string::npos);
}

// Whether or not an rpcbind runs here, it does not know the program.
TEST(ClntCreate, AskingRpcbindFailsAsLibtirpcsOwnDoes) {
    rpcrdma_opts opts = RPCRDMA_OPTS_INIT;
    opts.flags = RPCRDMA_RPCBIND;
    EXPECT_EQ(clnt_rdma_create("127.0.7.1", kProg, kVers, &opts), nullptr);
    const clnt_stat status = get_rpc_createerr().cf_stat;
    EXPECT_TRUE(status == RPC_RPCBFAILURE || status == RPC_PROGNOTREGISTERED) << status;
    EXPECT_STRNE(rpcrdma_strerror(), "");
}

TEST(ClntCreate, AnAddressMustBeOfIpAndWhole) {
    const sockaddr_in6 address{};
    sockaddr_storage other{};
    other.ss_family = AF_UNIX;
    const void* const as_sa[] = {&address, &other};
    EXPECT_EQ(
        clnt_rdma_tli_create(static_cast<const sockaddr*>(as_sa[0]), 4, kProg, kVers, nullptr),
        nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, EAFNOSUPPORT);
    EXPECT_EQ(clnt_rdma_tli_create(static_cast<const sockaddr*>(as_sa[1]), sizeof other, kProg,
                                   kVers, nullptr),
              nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, EAFNOSUPPORT);
    EXPECT_EQ(clnt_rdma_tli_create(nullptr, 0, kProg, kVers, nullptr), nullptr);
    EXPECT_EQ(get_rpc_createerr().cf_error.re_errno, EAFNOSUPPORT);
}

TEST(ClntCreate, MemoryOfTheConnectionIsOfOursOnly) {
    Server server;
    const Client client(server.connect());
    EXPECT_EQ(clnt_rdma_alloc(client.clnt, 0), nullptr);
    EXPECT_EQ(clnt_rdma_alloc(client.clnt, (1u << 20) + 1), nullptr);
    EXPECT_STRNE(rpcrdma_strerror(), "");
    EXPECT_EQ(clnt_rdma_alloc(nullptr, 10), nullptr);
    void* const memory = clnt_rdma_alloc(client.clnt, 1u << 20);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(address_of(memory) % 4096, 0u);
    std::memset(memory, 1, 1u << 20);
    clnt_rdma_free(client.clnt, memory);
    clnt_rdma_free(client.clnt, nullptr);
    clnt_rdma_free(client.clnt, &server);  // none of its memory: no effect
}

}  // namespace
}  // namespace nfsrdma::tirpc::test
