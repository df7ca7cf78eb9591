#include "nfs/exports.hpp"

#include <limits>

#include <gtest/gtest.h>

#include "nfs/exports_host.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kMinusOne = std::numeric_limits<std::uint32_t>::max();

Cred caller(std::uint32_t uid, std::uint32_t gid, std::vector<std::uint32_t> groups = {}) {
    Cred out;
    out.known = true;
    out.uid = uid;
    out.gid = gid;
    out.group_count = static_cast<std::uint32_t>(groups.size());
    std::copy(groups.begin(), groups.end(), out.groups.begin());
    return out;
}

ClientOptions squashing(Squash squash, std::uint32_t uid = 65, std::uint32_t gid = 66) {
    ClientOptions out;
    out.squash = squash;
    out.anon_uid = uid;
    out.anon_gid = gid;
    return out;
}

TEST(Squash, TableOfCallers) {
    struct Row {
        Squash squash;
        Cred who;
        std::uint32_t uid, gid;
    };
    const std::vector<Row> rows = {
        {Squash::none, caller(0, 0), 0, 0},
        {Squash::none, caller(5, 6), 5, 6},
        {Squash::root, caller(0, 0), 65, 66},
        {Squash::root, caller(0, 6), 65, 6},
        {Squash::root, caller(5, 0), 5, 66},
        {Squash::root, caller(5, 6), 5, 6},
        {Squash::all, caller(0, 0), 65, 66},
        {Squash::all, caller(5, 6), 65, 66},
        {Squash::none, Cred{}, 65, 66},  // AUTH_NONE
        {Squash::root, Cred{}, 65, 66},
        {Squash::none, caller(kMinusOne, kMinusOne), 65, 66},
        {Squash::root, caller(kMinusOne - 1, 1), kMinusOne - 1, 1},
    };
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const Cred got = squashed(rows[i].who, squashing(rows[i].squash));
        EXPECT_TRUE(got.known) << i;
        EXPECT_EQ(got.uid, rows[i].uid) << i;
        EXPECT_EQ(got.gid, rows[i].gid) << i;
    }
}

TEST(Squash, GroupZeroIsSquashedAmongTheGroups) {
    const Cred who = caller(5, 6, {0, 7, kMinusOne, 8});
    const Cred got = squashed(who, squashing(Squash::root));
    ASSERT_EQ(got.group_count, 3u);
    EXPECT_EQ(got.groups[0], 66u);
    EXPECT_EQ(got.groups[1], 7u);
    EXPECT_EQ(got.groups[2], 8u);
    EXPECT_EQ(squashed(who, squashing(Squash::none)).groups[0], 0u);
    EXPECT_EQ(squashed(who, squashing(Squash::all)).group_count, 0u);
}

TEST(Squash, GroupCountIsBounded) {
    Cred who = caller(5, 6);
    who.group_count = kMinusOne;
    EXPECT_LE(squashed(who, squashing(Squash::root)).group_count, who.groups.size());
}

ClientRule rule(const std::string& host, std::uint32_t mark) {
    ClientRule out;
    std::string why;
    EXPECT_TRUE(parse_host(host, out.host, why)) << host << " " << why;
    out.options.anon_uid = mark;
    return out;
}

// The mark of the rule that holds for `peer`; 0: none.
std::uint32_t found(const ExportRules& rules, const std::string& peer,
                    const std::vector<std::string>* names = nullptr) {
    bool need_names = false;
    const ClientRule* const got = rules.find(*SockAddr::parse(peer, 0), names, need_names);
    return got == nullptr ? 0 : got->options.anon_uid;
}

TEST(ExportRules, HostBeforeNetworkBeforeWildcardBeforeAll) {
    // As written in every order.
    const std::vector<ClientRule> all = {rule("*", 1), rule("*.example.org", 2),
                                         rule("10.0.0.0/8", 3), rule("10.1.1.1", 4)};
    const std::vector<std::string> names = {"h.example.org"}, other = {"h.example.net"};
    for (const std::vector<std::size_t>& order :
         {std::vector<std::size_t>{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}}) {
        ExportRules rules;
        for (const std::size_t i : order)
            rules.clients.push_back(all[i]);
        EXPECT_EQ(found(rules, "10.1.1.1", &names), 4u);
        EXPECT_EQ(found(rules, "10.1.1.2", &names), 3u);
        EXPECT_EQ(found(rules, "11.1.1.1", &names), 2u);
        EXPECT_EQ(found(rules, "11.1.1.1", &other), 1u);
    }
}

TEST(ExportRules, FirstOfEqualsHolds) {
    const ExportRules rules{{rule("10.0.0.0/8", 1), rule("10.1.0.0/16", 2)}};
    EXPECT_EQ(found(rules, "10.1.1.1"), 1u);
}

TEST(ExportRules, NobodyWithoutARule) {
    const ExportRules rules{{rule("10.1.1.1", 1), rule("fd00::/64", 2)}};
    EXPECT_EQ(found(rules, "10.1.1.2"), 0u);
    EXPECT_EQ(found(rules, "::1"), 0u);
    EXPECT_EQ(found(ExportRules{}, "127.0.0.1"), 0u);
}

TEST(ExportRules, NetworksByTheBit) {
    struct Row {
        const char *network, *in, *out;
    };
    for (const Row& row : {Row{"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
                           Row{"10.0.0.0/255.255.254.0", "10.0.1.255", "10.0.2.0"},
                           Row{"192.168.1.128/25", "192.168.1.128", "192.168.1.127"},
                           Row{"192.168.1.200/25", "192.168.1.129", "192.168.1.1"},
                           Row{"1.2.3.4/32", "1.2.3.4", "1.2.3.5"},
                           Row{"0.0.0.0/0", "255.1.2.3", "::1"}, Row{"::/0", "fe80::1", "1.2.3.4"},
                           Row{"2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"},
                           Row{"2001:db8::1", "2001:db8::1", "2001:db8::2"},
                           Row{"1.2.3.4", "::ffff:1.2.3.4", "::1.2.3.4"}}) {
        const ExportRules rules{{rule(row.network, 1)}};
        EXPECT_EQ(found(rules, row.in), 1u) << row.network;
        EXPECT_EQ(found(rules, row.out), 0u) << row.network;
    }
}

TEST(ExportRules, NamesAreAskedForOnlyWhereTheyDecide) {
    const auto needs = [](const ExportRules& rules, const char* peer) {
        bool need_names = false;
        static_cast<void>(rules.find(*SockAddr::parse(peer, 0), nullptr, need_names));
        return need_names;
    };
    const ExportRules rules{{rule("*.example.org", 1), rule("10.0.0.0/8", 2), rule("*", 3)}};
    EXPECT_FALSE(needs(rules, "10.1.1.1"));
    EXPECT_TRUE(needs(rules, "11.1.1.1"));
    EXPECT_FALSE(needs(ExportRules::open(), "11.1.1.1"));
}

TEST(ExportRules, OpenIsForAllAsThemselves) {
    const ExportRules rules = ExportRules::open();
    ASSERT_EQ(rules.clients.size(), 1u);
    EXPECT_FALSE(rules.clients[0].options.read_only);
    EXPECT_FALSE(rules.clients[0].options.secure);
    EXPECT_EQ(rules.clients[0].options.squash, Squash::none);
}

TEST(NameMatches, Table) {
    struct Row {
        const char *pattern, *name;
        bool match;
    };
    for (const Row& row : {Row{"*.example.org", "a.example.org", true},
                           Row{"*.example.org", "a.b.example.org", true},
                           Row{"*.example.org", "example.org", false},
                           Row{"*.example.org", "a.example.organ", false},
                           Row{"*.EXAMPLE.org", "A.example.ORG", true},
                           Row{"node?", "node1", true},
                           Row{"node?", "node", false},
                           Row{"node?", "node12", false},
                           Row{"node[0-4]", "node4", true},
                           Row{"node[0-4]", "node5", false},
                           Row{"node[!0-4]", "node5", true},
                           Row{"node[^0-4]", "node4", false},
                           Row{"node[abc].x", "nodeb.x", true},
                           Row{"node[]x]", "node]", true},
                           Row{"*a*b", "xaxxabxb", true},
                           Row{"*a*b", "xaxx", false},
                           Row{"**", "", true},
                           Row{"", "", true},
                           Row{"", "x", false},
                           Row{"*", "anything.at.all", true},
                           Row{"a*", "", false},
                           Row{"[", "[", true}}) {
        EXPECT_EQ(name_matches(row.pattern, row.name), row.match) << row.pattern << " " << row.name;
    }
}

TEST(NameMatches, ManyStarsEnd) {
    const std::string name(255, 'a');
    std::string pattern;
    for (int i = 0; i < 100; ++i)
        pattern += "*a";
    EXPECT_FALSE(name_matches(pattern + "b", name));
}

TEST(ExportNames, AreNormal) {
    EXPECT_EQ(normal_export_name("/a"), "/a");
    EXPECT_EQ(normal_export_name("a//b/"), "/a/b");
    EXPECT_EQ(normal_export_name(""), "/");
    EXPECT_EQ(normal_export_name("///"), "/");
    EXPECT_EQ(normal_export_name("/with space"), "/with space");
}

}  // namespace
}  // namespace nfsrdma::nfs
