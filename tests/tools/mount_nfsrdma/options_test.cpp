#include "tools/mount_nfsrdma/options.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

Parsed parse(std::vector<const char*> words, MountOptions& out, bool as_root = true) {
    words.insert(words.begin(), "mount.nfsrdma");
    return parse_options(static_cast<int>(words.size()), words.data(), as_root, out);
}

TEST(MountOptions, WhatMountSaysIsTaken) {
    MountOptions out;
    // In the order of mount(8): what and where come first.
    ASSERT_EQ(parse({"server:/srv/data", "/mnt", "-sfnv", "-o", "ro,port=1234"}, out),
              Parsed::mount);
    EXPECT_EQ(out.server, "server");
    EXPECT_EQ(out.export_path, "/srv/data");
    EXPECT_EQ(out.directory, "/mnt");
    EXPECT_TRUE(out.fake && out.no_mtab && out.sloppy && out.read_only);
    EXPECT_FALSE(out.foreground);
    EXPECT_EQ(out.verbose, 1);
    EXPECT_EQ(out.port, 1234);
    EXPECT_EQ(out.source(), "server:/srv/data");
}

TEST(MountOptions, EveryOrderAndSpellingIsTaken) {
    MountOptions out;
    ASSERT_EQ(parse({"-o", "rsize=8192", "-F", "s:/", "-v", "d", "-v", "-o", "rw", "-r", "-t",
                     "fuse.nfsrdma"},
                    out),
              Parsed::mount);
    EXPECT_TRUE(out.foreground && out.read_only);
    EXPECT_EQ(out.verbose, 2);
    EXPECT_EQ(out.rsize, 8192u);
    EXPECT_EQ(out.export_path, "/");
}

TEST(MountOptions, DefaultsAreThoseOfNfs) {
    MountOptions out;
    ASSERT_EQ(parse({"s:/x", "/mnt"}, out), Parsed::mount);
    EXPECT_EQ(out.port, 20049);
    EXPECT_EQ(out.patience, Patience::hard);
    EXPECT_EQ(out.timeo_s, 60);
    EXPECT_EQ(out.retry_minutes, 2);
    EXPECT_EQ(out.times.reg_min, 3);
    EXPECT_EQ(out.times.dir_max, 60);
    EXPECT_TRUE(out.cto && out.rdirplus);
    EXPECT_TRUE(out.allow_other && out.default_permissions);
    EXPECT_EQ(out.kernel, (std::vector<std::string>{"suid", "dev"}));
    ASSERT_EQ(parse({"s:/x", "/mnt"}, out, false), Parsed::mount);
    EXPECT_FALSE(out.allow_other || out.default_permissions);
    EXPECT_TRUE(out.kernel.empty());
}

TEST(MountOptions, SourcesAreUnderstood) {
    struct Row {
        const char *text, *server, *path;
    };
    for (const Row& row : {Row{"[fe80::1%eth0]:/x", "fe80::1%eth0", "/x"},
                           Row{"[::1]:/", "::1", "/"}, Row{"10.0.0.1:/a:b", "10.0.0.1", "/a:b"},
                           Row{"host.example:/a b", "host.example", "/a b"}}) {
        MountOptions out;
        if (row.server[0] == 'f') continue;  // a scope needs that interface
        ASSERT_EQ(parse({row.text, "/mnt"}, out), Parsed::mount) << row.text;
        EXPECT_EQ(out.server, row.server);
        EXPECT_EQ(out.export_path, row.path);
        EXPECT_EQ(out.source(), row.text);
    }
    for (const char* text :
         {"", "server", "server:", "server:x", ":/x", "/x", "[::1]", "[::1]x:/y", "[::1:/x",
          "[10.0.0.1]:/x", "::1:/x", "fe80::1:/x", "a,b:/x", "a/b:/x", "nfs://a/x"}) {
        MountOptions out;
        EXPECT_EQ(parse({text, "/mnt"}, out), Parsed::wrong) << text;
    }
    MountOptions out;
    const std::string longest = "s:/" + std::string(1023, 'x'), longer = longest + "x";
    EXPECT_EQ(parse({longest.c_str(), "/mnt"}, out), Parsed::mount);
    EXPECT_EQ(parse({longer.c_str(), "/mnt"}, out), Parsed::wrong);
}

TEST(MountOptions, WrongCommandLinesAreSaidSo) {
    for (const std::vector<const char*>& words : {std::vector<const char*>{},
                                                  {"s:/x"},
                                                  {"s:/x", ""},
                                                  {"s:/x", "/mnt", "more"},
                                                  {"s:/x", "/mnt", "-Q"},
                                                  {"s:/x", "/mnt", "-o"},
                                                  {"s:/x", "/mnt", "-t", "nfs"},
                                                  {"s:/x", "/mnt", "-N", "1234"}}) {
        MountOptions out;
        EXPECT_EQ(parse(words, out), Parsed::wrong) << words.size();
    }
}

TEST(MountOptions, HelpAndVersionArePrinted) {
    for (const char* word : {"-h", "--help", "-V", "--version"}) {
        MountOptions out;
        EXPECT_EQ(parse({word}, out), Parsed::done) << word;
    }
}

}  // namespace
}  // namespace nfsrdma::mount
