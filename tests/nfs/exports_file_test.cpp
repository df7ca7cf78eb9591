#include "nfs/exports_file.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace nfsrdma::nfs {
namespace {

std::vector<ExportSpec> parse(const std::string& text, ExportIssues& issues) {
    return parse_exports(text, "f", issues);
}
// A text that is well.
std::vector<ExportSpec> good(const std::string& text) {
    ExportIssues issues;
    std::vector<ExportSpec> out = parse(text, issues);
    EXPECT_TRUE(issues.errors.empty()) << text << ": " << issues.errors.front();
    return out;
}
ClientOptions options_of(const std::string& text) {
    const std::vector<ExportSpec> specs = good("/a *(" + text + ")");
    if (specs.size() != 1 || specs[0].rules.clients.size() != 1) return {};
    return specs[0].rules.clients[0].options;
}

TEST(ExportsFile, NothingIsNothing) {
    for (const char* text :
         {"", "\n\n", "# only\n#a comment", "   \t \n # c\n", "\\\n\\\n", "\r\n"}) {
        EXPECT_TRUE(good(text).empty()) << text;
    }
}

TEST(ExportsFile, LineOfExports5) {
    const auto specs = good("/srv/data  host(rw,no_root_squash) 10.0.0.0/8 *.x.org(ro)\t::1(rw)\n");
    ASSERT_EQ(specs.size(), 1u);
    EXPECT_EQ(specs[0].path, "/srv/data");
    EXPECT_EQ(specs[0].name, "/srv/data");
    EXPECT_EQ(specs[0].where, "f:1");
    const auto& clients = specs[0].rules.clients;
    ASSERT_EQ(clients.size(), 4u);
    EXPECT_EQ(clients[0].host.text, "host");
    EXPECT_FALSE(clients[0].options.read_only);
    EXPECT_EQ(clients[0].options.squash, Squash::none);
    EXPECT_EQ(clients[1].options, ClientOptions{});  // exports(5): ro, root_squash, secure
    EXPECT_TRUE(clients[2].options.read_only);
    EXPECT_EQ(clients[3].host.text, "::1");
}

TEST(ExportsFile, DefaultsOfTheLine) {
    const auto specs = good("/a -rw,all_squash,anonuid=7 h1 h2(ro,no_all_squash)\n/b h3");
    ASSERT_EQ(specs.size(), 2u);
    const auto& clients = specs[0].rules.clients;
    ASSERT_EQ(clients.size(), 2u);
    EXPECT_FALSE(clients[0].options.read_only);
    EXPECT_EQ(clients[0].options.squash, Squash::all);
    EXPECT_EQ(clients[0].options.anon_uid, 7u);
    EXPECT_TRUE(clients[1].options.read_only);
    EXPECT_EQ(clients[1].options.squash, Squash::root);
    EXPECT_EQ(clients[1].options.anon_uid, 7u);
    EXPECT_EQ(specs[1].rules.clients[0].options, ClientOptions{});
}

TEST(ExportsFile, CommentsAndContinuations) {
    const auto specs = good(
        "# head \\\n"
        "/a h1(ro) \\\n"
        "   h2(rw,\\\n   secure)  # tail h9\n"
        "/b#c h3 # x\n"
        "/d\\\n*(ro)");
    ASSERT_EQ(specs.size(), 3u);
    ASSERT_EQ(specs[0].rules.clients.size(), 2u);
    EXPECT_FALSE(specs[0].rules.clients[1].options.read_only);
    EXPECT_EQ(specs[0].where, "f:2");
    EXPECT_EQ(specs[1].path, "/b#c");
    EXPECT_EQ(specs[1].where, "f:5");
    EXPECT_EQ(specs[1].rules.clients.size(), 1u);
    EXPECT_EQ(specs[2].where, "f:6");
    EXPECT_EQ(specs[2].rules.clients[0].host.kind, HostPattern::Kind::any);
}

TEST(ExportsFile, QuotedAndEscapedPaths) {
    const auto specs = good(
        "\"/with space\" *\n/with\\040octal *\n\"/hash # in\" *\n/q\\042 *\n/back\\slash "
        "*\n//x///y/ *");
    ASSERT_EQ(specs.size(), 6u);
    EXPECT_EQ(specs[0].path, "/with space");
    EXPECT_EQ(specs[1].path, "/with octal");
    EXPECT_EQ(specs[2].path, "/hash # in");
    EXPECT_EQ(specs[3].path, "/q\"");
    EXPECT_EQ(specs[4].path, "/back\\slash");
    EXPECT_EQ(specs[5].path, "/x/y");
    EXPECT_EQ(good("/ *")[0].path, "/");
}

TEST(ExportsFile, OptionTable) {
    EXPECT_TRUE(options_of("").read_only);
    EXPECT_FALSE(options_of("rw").read_only);
    EXPECT_TRUE(options_of("rw,ro").read_only);  // the last one holds
    EXPECT_FALSE(options_of("insecure").secure);
    EXPECT_TRUE(options_of("insecure,secure").secure);
    EXPECT_EQ(options_of("no_root_squash").squash, Squash::none);
    EXPECT_EQ(options_of("no_root_squash,root_squash").squash, Squash::root);
    EXPECT_EQ(options_of("all_squash,no_root_squash").squash, Squash::all);
    EXPECT_EQ(options_of("anonuid=0,anongid=4294967294").anon_uid, 0u);
    EXPECT_EQ(options_of("anonuid=-2").anon_uid, 4294967294u);
    EXPECT_EQ(options_of(" rw , anongid=9 ,").anon_gid, 9u);
}

TEST(ExportsFile, HarmlessOptionsAreNoted) {
    ExportIssues issues;
    parse("/a *(rw,sync,no_subtree_check,crossmnt,sec=sys)", issues);
    EXPECT_TRUE(issues.errors.empty());
    EXPECT_TRUE(issues.warnings.empty());
    ASSERT_EQ(issues.notes.size(), 4u);
    EXPECT_EQ(issues.notes[0], "f:1: option sync has no effect");
}

TEST(ExportsFile, FsidIsOfTheExport) {
    EXPECT_EQ(good("/a h1(fsid=7) h2")[0].fsid, "7");
    EXPECT_EQ(good("/a -fsid=root h1 h2")[0].fsid, "root");
    EXPECT_EQ(good("/a h1(fsid=7)\n/a h2")[0].fsid, "7");
}

TEST(ExportsFile, LinesOfOnePathAreOne) {
    const auto specs = good("/a h1(ro)\n/b *\n/a/ h2(rw) h1(ro)\n");
    ASSERT_EQ(specs.size(), 2u);
    ASSERT_EQ(specs[0].rules.clients.size(), 2u);
    EXPECT_EQ(specs[0].rules.clients[1].host.text, "h2");
}

TEST(ExportsFile, WithoutHostsIsForAllAndWarnedOf) {
    ExportIssues issues;
    const auto specs = parse("\n/a\n", issues);
    ASSERT_EQ(specs.size(), 1u);
    EXPECT_EQ(specs[0].rules.clients[0].host.kind, HostPattern::Kind::any);
    ASSERT_EQ(issues.warnings.size(), 1u);
    EXPECT_EQ(issues.warnings[0].substr(0, 4), "f:2:");
}

TEST(ExportsFile, BadLinesSayFileLineAndReason) {
    struct Row {
        const char *line, *why;
    };
    for (const Row& row : {Row{"a *", "absolute"},
                           Row{"\"/a *", "ends the path"},
                           Row{"\"\" *", "absolute"},
                           Row{"\"/a\"b *", "blank"},
                           Row{"/a/../b *", "'..'"},
                           Row{"/a/. *", "'.'"},
                           Row{"/a\\000b *", "zero"},
                           Row{"/a @g(rw)", "netgroup"},
                           Row{"/a *(rw", "')'"},
                           Row{"/a *(rw)x", "blank after"},
                           Row{"/a * (rw)", "without a host"},
                           Row{"/a (rw)", "without a host"},
                           Row{"/a *(rwx)", "unknown option 'rwx'"},
                           Row{"/a -x *", "unknown option 'x'"},
                           Row{"/a * -rw", "default options"},
                           Row{"/a *(anonuid=)", "anonuid="},
                           Row{"/a *(anonuid=-1)", "anonuid=-1"},
                           Row{"/a *(anongid=4294967295)", "anongid="},
                           Row{"/a *(anongid=1x)", "anongid="},
                           Row{"/a *(fsid=x)", "fsid=x"},
                           Row{"/a h(fsid=1) g(fsid=2)", "one fsid"},
                           Row{"/a *(sec=krb5)", "sec=krb5"},
                           Row{"/a *(mp)", "not supported"},
                           Row{"/a h(ro) h(rw)", "twice"},
                           Row{"/a 10.0.0.0/40", "0 to 32"}}) {
        ExportIssues issues;
        const auto specs =
            parse(std::string("/ok *(ro)\n\n") + row.line + "\n/after *(ro)\n", issues);
        ASSERT_EQ(issues.errors.size(), 1u) << row.line;
        EXPECT_EQ(issues.errors[0].substr(0, 5), "f:3: ") << issues.errors[0];
        EXPECT_NE(issues.errors[0].find(row.why), std::string::npos) << issues.errors[0];
        EXPECT_EQ(specs.size(), 2u) << row.line;  // the others are read nevertheless
    }
    ExportIssues issues;
    parse("/" + std::string(1024, 'x') + " *", issues);
    EXPECT_EQ(issues.errors.size(), 1u);
}

TEST(ExportsFile, DifferencesBetweenLinesOfOnePathAreErrors) {
    ExportIssues issues;
    parse("/a h(ro)\n/a h(rw)\n/b h(fsid=1)\n/b g(fsid=2)\n", issues);
    ASSERT_EQ(issues.errors.size(), 2u);
    EXPECT_EQ(issues.errors[0].substr(0, 4), "f:2:");
    EXPECT_EQ(issues.errors[1].substr(0, 4), "f:4:");
}

TEST(ExportsFile, HostsOfOneExportAreBounded) {
    std::string line = "/a";
    for (int i = 0; i < 5000; ++i)
        line += " h" + std::to_string(i);
    ExportIssues issues;
    parse(line, issues);
    ASSERT_EQ(issues.errors.size(), 1u);
    EXPECT_NE(issues.errors[0].find("4096"), std::string::npos);
}

TEST(ExportsFile, AnyBytesEnd) {
    Prng prng(1);
    constexpr char kAlphabet[] = "/a*()\\\n \"#,=-@0.\trw\0";  // its last NUL is wanted
    const std::string alphabet(kAlphabet, sizeof kAlphabet - 1);
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        for (std::uint64_t n = prng.below(40); n > 0; --n)
            text.push_back(alphabet[prng.below(alphabet.size())]);
        ExportIssues issues;
        for (const ExportSpec& spec : parse(text, issues)) {
            EXPECT_EQ(spec.path.front(), '/');
            EXPECT_FALSE(spec.rules.clients.empty());
        }
    }
}

}  // namespace
}  // namespace nfsrdma::nfs
