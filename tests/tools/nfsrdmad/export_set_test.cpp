#include "tools/nfsrdmad/export_set.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

class ExportSetTest : public ::testing::Test {
  protected:
    void SetUp() override {
        for (const char* name : {"a", "b"})
            std::filesystem::create_directory(dir.path() + "/" + name);
        options.exports_file = dir.path() + "/exports";
    }
    // Replaces $ by the directory.
    void write(const std::string& text) {
        std::string out;
        for (const char c : text) {
            if (c == '$') {
                out += dir.path();
            } else {
                out += c;
            }
        }
        std::ofstream(options.exports_file, std::ios::trunc) << out;
    }
    LoadStatus load(ExportSet& set) {
        issues = {};
        return set.load(server, issues);
    }
    testing::TempDir dir;
    Options options;
    nfs::Server server;
    nfs::ExportIssues issues;
};

TEST_F(ExportSetTest, FileAndCommandLineAreOneSet) {
    write("$/a *(rw)\n");
    options.exports.push_back({dir.path() + "/b", "/b", false, {}});
    ExportSet set(options, {});
    ASSERT_EQ(load(set), LoadStatus::ok);
    const nfs::ExportList exports = server.exports();
    ASSERT_EQ(exports.size(), 2u);
    EXPECT_EQ(exports[0]->name, "/b");
    // Without options: everybody, as this process.
    const nfs::ClientOptions& own = exports[0]->rules.clients.at(0).options;
    EXPECT_FALSE(own.read_only);
    EXPECT_FALSE(own.secure);
    EXPECT_EQ(own.squash, nfs::Squash::all);
    EXPECT_EQ(own.anon_uid, ::geteuid());
    EXPECT_EQ(own.anon_gid, ::getegid());
    EXPECT_EQ(exports[1]->rules.clients.at(0).options.squash, nfs::Squash::root);
}

TEST_F(ExportSetTest, ReloadKeepsBackendsOfDirectoriesThatStay) {
    write("$/a *(rw)\n$/b *(rw)\n");
    ExportSet set(options, {});
    ASSERT_EQ(load(set), LoadStatus::ok);
    const auto a = server.exports()[0]->vfs, b = server.exports()[1]->vfs;
    write("$/b *(ro)\n$/a *(rw,all_squash)\n");
    ASSERT_EQ(load(set), LoadStatus::ok);
    EXPECT_EQ(server.exports()[0]->vfs, b);
    EXPECT_EQ(server.exports()[1]->vfs, a);
    EXPECT_TRUE(server.exports()[0]->rules.clients[0].options.read_only);
    // Another directory in its place, or another fsid: another backend.
    std::filesystem::rename(dir.path() + "/a", dir.path() + "/old");
    std::filesystem::create_directory(dir.path() + "/a");
    write("$/a *(rw)\n$/b *(rw,fsid=5)\n");
    ASSERT_EQ(load(set), LoadStatus::ok);
    EXPECT_NE(server.exports()[0]->vfs, a);
    EXPECT_NE(server.exports()[1]->vfs, b);
}

TEST_F(ExportSetTest, ErrorsChangeNothing) {
    write("$/a *(rw)\n");
    ExportSet set(options, {});
    ASSERT_EQ(load(set), LoadStatus::ok);
    const nfs::ExportList before = server.exports();
    write("$/b *(rw)\n$/b *(rwx)\n");
    EXPECT_EQ(load(set), LoadStatus::bad_config);
    ASSERT_EQ(issues.errors.size(), 1u);
    EXPECT_EQ(issues.errors[0], options.exports_file + ":2: unknown option 'rwx'");
    write("$/b *(rw)\n$/none *(rw)\n");
    EXPECT_EQ(load(set), LoadStatus::bad_directory);
    EXPECT_NE(issues.errors.at(0).find(":2: cannot export"), std::string::npos);
    write("$/exports *(rw)\n");
    EXPECT_EQ(load(set), LoadStatus::bad_directory);
    EXPECT_NE(issues.errors.at(0).find("Not a directory"), std::string::npos);
    std::filesystem::remove(options.exports_file);
    EXPECT_EQ(load(set), LoadStatus::bad_config);
    EXPECT_NE(issues.errors.at(0).find("No such file"), std::string::npos);
    EXPECT_EQ(server.exports(), before);
}

TEST_F(ExportSetTest, OneNameOnce) {
    write("$/a *(rw)\n");
    options.exports.push_back({dir.path() + "/b", dir.path() + "/a", false, {}});
    ExportSet set(options, {});
    EXPECT_EQ(load(set), LoadStatus::bad_config);
    EXPECT_NE(issues.errors.at(0).find("exported twice"), std::string::npos);
}

TEST_F(ExportSetTest, OneFsidOnce) {
    write("$/a *(fsid=7)\n\n$/b *(fsid=7)\n");
    ExportSet set(options, {});
    EXPECT_EQ(load(set), LoadStatus::bad_config);
    const std::string& file = options.exports_file;
    EXPECT_EQ(issues.errors.at(0),
              file + ":3: " + dir.path() + "/b, fsid=7, is exported twice: see " + file + ":1");
}

TEST_F(ExportSetTest, EmptyFileIsAWarning) {
    write("# nothing\n");
    ExportSet set(options, {});
    EXPECT_EQ(load(set), LoadStatus::ok);
    EXPECT_EQ(issues.warnings.size(), 1u);
    EXPECT_EQ(summary(server), "nothing");
}

TEST_F(ExportSetTest, TextsForPeople) {
    write("$/a *(rw) 10.0.0.0/8\n");
    ExportSet set(options, {});
    std::vector<nfs::ExportSpec> specs;
    ASSERT_EQ(set.plan(specs, issues), LoadStatus::ok);
    EXPECT_EQ(listing(specs),
              dir.path() +
                  "/a\n    *(rw,root_squash,secure,anonuid=65534,anongid=65534)\n"
                  "    10.0.0.0/8(ro,root_squash,secure,anonuid=65534,anongid=65534)\n");
    EXPECT_TRUE(server.exports().empty());  // a plan changes nothing
    ASSERT_EQ(load(set), LoadStatus::ok);
    EXPECT_EQ(summary(server), dir.path() + "/a (* rw; 10.0.0.0/8 ro)");
    write("$/a *(rw,all_squash,anonuid=7)\n");
    ASSERT_EQ(load(set), LoadStatus::ok);
    EXPECT_EQ(summary(server), dir.path() + "/a (* rw, all as uid 7)");
    std::string many;
    for (int i = 0; i < 12; ++i) {
        const std::string name = "n" + std::to_string(i);
        std::filesystem::create_directory(dir.path() + "/" + name);
        many += "$/" + name + " *\n";
    }
    write(many);
    ASSERT_EQ(load(set), LoadStatus::ok);
    EXPECT_NE(summary(server).find("and 4 more"), std::string::npos);
}

TEST_F(ExportSetTest, OptionsOfTheCommandLine) {
    std::string why;
    options.exports_file.clear();
    options.exports.push_back(parse_export(dir.path() + "/a=/x:rw,anonuid=9,fsid=3", why));
    ASSERT_TRUE(why.empty()) << why;
    ExportSet set(options, {});
    ASSERT_EQ(load(set), LoadStatus::ok);
    const nfs::Export& entry = *server.exports().at(0);
    EXPECT_EQ(entry.name, "/x");
    EXPECT_EQ(entry.id, *nfs::export_id_of_fsid("3"));
    EXPECT_EQ(entry.rules.clients[0].options.anon_uid, 9u);
    EXPECT_EQ(entry.rules.clients[0].options.squash, nfs::Squash::root);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
