#include "nfs/exports_host.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

using Kind = HostPattern::Kind;

TEST(ParseHost, Kinds) {
    struct Row {
        const char* text;
        Kind kind;
        std::size_t networks;
    };
    for (const Row& row :
         {Row{"*", Kind::any, 0}, Row{"host", Kind::host, 0}, Row{"h-1.example.org", Kind::host, 0},
          Row{"10.1.2.3", Kind::host, 1}, Row{"::1", Kind::host, 1}, Row{"fe80::2", Kind::host, 1},
          Row{"10.0.0.0/8", Kind::network, 1}, Row{"10.0.0.0/255.0.0.0", Kind::network, 1},
          Row{"2001:db8::/32", Kind::network, 1}, Row{"0.0.0.0/0", Kind::network, 1},
          Row{"*.example.org", Kind::names, 0}, Row{"node?", Kind::names, 0},
          Row{"node[0-9].x", Kind::names, 0}}) {
        HostPattern host;
        std::string why;
        ASSERT_TRUE(parse_host(row.text, host, why)) << row.text << " " << why;
        EXPECT_EQ(host.kind, row.kind) << row.text;
        EXPECT_EQ(host.networks.size(), row.networks) << row.text;
        EXPECT_EQ(host.text, row.text);
    }
}

TEST(ParseHost, RefusedWithAReason) {
    struct Row {
        const char *text, *why;
    };
    for (const Row& row : {Row{"@group", "netgroup"},
                           Row{"gss/krb5", "Kerberos"},
                           Row{"", "no host"},
                           Row{"-ro", "default options"},
                           Row{"10.0.0.0/33", "0 to 32"},
                           Row{"10.0.0.0/", "0 to 32"},
                           Row{"10.0.0.0/255.0.255.0", "netmask"},
                           Row{"10.0.0.0/-1", "0 to 32"},
                           Row{"::/129", "0 to 128"},
                           Row{"fe80::/ffff::", "0 to 128"},
                           Row{"host/24", "no numeric address"},
                           Row{"10.0/16", "no numeric address"},
                           Row{"10.1.2", "IPv4"},
                           Row{"300.1.1.1", "IPv4"},
                           Row{"1:2", "IPv6"},
                           Row{"fe80::1%lo", "IPv6"},
                           Row{"10.1.2.*", "wildcard over addresses"},
                           Row{"10.1.2.3:2049", "IPv6"},
                           Row{"ho$t", "character"},
                           Row{"*.ex;ample", "character"},
                           Row{"node[0-9", "']'"}}) {
        HostPattern host;
        std::string why;
        EXPECT_FALSE(parse_host(row.text, host, why)) << row.text;
        EXPECT_NE(why.find(row.why), why.npos) << row.text << ": " << why;
    }
    HostPattern host;
    std::string why;
    EXPECT_FALSE(parse_host(std::string(256, 'a'), host, why));
}

TEST(ResolveHosts, NamesGetTheirAddresses) {
    ExportRules rules;
    std::string why;
    rules.clients.resize(3);
    ASSERT_TRUE(parse_host("localhost", rules.clients[0].host, why));
    ASSERT_TRUE(parse_host("no-such-host.invalid", rules.clients[1].host, why));
    ASSERT_TRUE(parse_host("10.0.0.0/8", rules.clients[2].host, why));
    const std::vector<std::string> told = resolve_hosts(rules);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_NE(told[0].find("no-such-host.invalid"), std::string::npos);
    EXPECT_NE(told[0].find("no access"), std::string::npos);
    EXPECT_FALSE(rules.clients[0].host.networks.empty());
    EXPECT_TRUE(rules.clients[1].host.networks.empty());
    bool need_names = false;
    EXPECT_NE(rules.find(*SockAddr::parse("127.0.0.1", 0), nullptr, need_names), nullptr);
    EXPECT_EQ(rules.find(*SockAddr::parse("127.0.0.2", 0), nullptr, need_names), nullptr);
}

}  // namespace
}  // namespace nfsrdma::nfs
