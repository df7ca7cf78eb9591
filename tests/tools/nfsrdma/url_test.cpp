#include "tools/nfsrdma/url.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(Url, PartsOfAGoodOne) {
    std::string why;
    auto url = parse_url("nfs://server/export/a/b", why);
    ASSERT_TRUE(url);
    EXPECT_EQ(url->host, "server");
    EXPECT_EQ(url->port, 20049);
    EXPECT_EQ(url->path, "/export/a/b");
    EXPECT_EQ(url->text(), "nfs://server:20049/export/a/b");
    url = parse_url("nfs://10.0.0.1:2049/", why);
    ASSERT_TRUE(url);
    EXPECT_EQ(url->port, 2049);
    EXPECT_TRUE(url->ends_in_slash());
    url = parse_url("nfs://[fe80::1%eth0]:2050/x", why);
    ASSERT_TRUE(url);
    EXPECT_EQ(url->host, "fe80::1%eth0");
    EXPECT_EQ(url->port, 2050);
    EXPECT_EQ(url->server(), "[fe80::1%eth0]:2050");
}

TEST(Url, PercentIsAByteOrItself) {
    std::string why;
    EXPECT_EQ(parse_url("nfs://h/a%20b%2fc%C3%BC", why)->path, "/a b/c\xc3\xbc");
    EXPECT_EQ(parse_url("nfs://h/100%", why)->path, "/100%");
    EXPECT_EQ(parse_url("nfs://h/50%xy%2", why)->path, "/50%xy%2");
}

TEST(Url, BadOnesSayWhatIsExpected) {
    for (const char* text : {"", "/local", "nfs:/h/x", "http://h/x", "nfs://h", "nfs:///x",
                             "nfs://h:/x", "nfs://h:0/x", "nfs://h:65536/x", "nfs://h:12a/x",
                             "nfs://[::1/x", "nfs://[::1]x/y", "nfs://h/a%00b"}) {
        std::string why;
        EXPECT_FALSE(parse_url(text, why)) << text;
        EXPECT_NE(why.find("nfs://HOST"), std::string::npos) << text;
    }
}

TEST(Url, ServersAlone) {
    std::string why;
    const auto server = [&](const char* text) {
        const std::optional<Url> url = parse_server(text, why);
        return url ? url->server() : "none";
    };
    EXPECT_EQ(server("host"), "host:20049");
    EXPECT_EQ(server("host:5"), "host:5");
    EXPECT_EQ(server("127.0.0.1:20050"), "127.0.0.1:20050");
    EXPECT_EQ(server("::1"), "[::1]:20049");
    EXPECT_EQ(server("[::1]:7"), "[::1]:7");
    EXPECT_EQ(server("nfs://host"), "host:20049");
    EXPECT_EQ(server("nfs://host:9/x/y"), "host:9");
    for (const char* text : {"", "host/path", "host:", "host:x", "[::1"}) {
        EXPECT_EQ(server(text), "none") << text;
        EXPECT_NE(why.find("HOST"), std::string::npos);
    }
}

TEST(Url, PathPrefixesEndAtComponents) {
    EXPECT_TRUE(is_path_prefix("/", "/x"));
    EXPECT_TRUE(is_path_prefix("/srv", "/srv"));
    EXPECT_TRUE(is_path_prefix("/srv", "/srv/x"));
    EXPECT_FALSE(is_path_prefix("/srv", "/srvx"));
    EXPECT_FALSE(is_path_prefix("/srv/x", "/srv"));
}

TEST(Url, NormalPaths) {
    EXPECT_EQ(normal_path(""), "/");
    EXPECT_EQ(normal_path("//a/./b//"), "/a/b");
    EXPECT_EQ(normal_path("/a/../b"), "/a/../b");
    EXPECT_EQ(last_component("/a/b/"), "b");
    EXPECT_EQ(last_component("/"), "");
}

}  // namespace
}  // namespace nfsrdma::tool
