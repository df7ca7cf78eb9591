// Holds the project's shape: floors, columns, file and function length, banned words, a test for
// each source. The rules are pure functions on text and are tested on strings first; then they are
// run over the tree.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

namespace fs = std::filesystem;

struct Finding {
    std::string where;
    std::string what;
};

// ARCHITECTURE.md, "Floors": which folders each folder may include from. Itself is always allowed.
const std::map<std::string, std::set<std::string>>& floors() {
    static const std::map<std::string, std::set<std::string>> table = {
        {"base", {}},
        {"sunrpc", {"base"}},
        {"verbs", {"base"}},
        {"verbs/softroce", {"base", "verbs"}},
        {"verbs/rdmacore", {"base", "verbs"}},
        {"rpcrdma", {"base", "sunrpc"}},
        {"pools", {"base", "verbs"}},
        {"xprtrdma", {"base", "sunrpc", "verbs", "rpcrdma", "pools"}},
        {"svcrdma", {"base", "sunrpc", "verbs", "rpcrdma", "pools"}},
        {"nfs", {"base", "sunrpc"}},
        {"devices",
         {"base", "sunrpc", "verbs", "verbs/softroce", "verbs/rdmacore", "pools", "svcrdma"}},
        {"tirpc", {"base", "sunrpc", "verbs", "pools", "xprtrdma", "svcrdma", "nfs", "devices"}},
    };
    return table;
}

// "verbs/softroce/qp.cpp" -> "verbs/softroce"; nfs/server and nfs/client belong to nfs. Empty for
// tools, tests and foreign.
std::string floor_of(const std::string& path) {
    std::string best;
    for (const auto& [folder, allowed] : floors()) {
        if (path.rfind(folder + "/", 0) == 0 && folder.size() > best.size()) best = folder;
    }
    return best;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

std::vector<Finding> check_floors(const std::string& path, const std::string& text) {
    std::vector<Finding> found;
    const std::string mine = floor_of(path);
    if (mine.empty()) return found;
    static const std::regex include(R"re(^\s*#\s*include\s+"([^"]+)")re");
    for (const std::string& line : lines_of(text)) {
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        const std::string target = match[1];
        if (target.find("..") != std::string::npos)
            found.push_back({path, "include by ..: " + target});
        const std::string theirs = floor_of(target);
        if (theirs.empty() && target.find('/') == std::string::npos)
            continue;  // rpcgen's own headers
        if (theirs == mine || floors().at(mine).count(theirs) != 0) continue;
        found.push_back({path, "may not include " + target + ": arrows go down only"});
    }
    return found;
}

std::vector<Finding> check_lengths(const std::string& path, const std::string& text) {
    std::vector<Finding> found;
    const std::vector<std::string> lines = lines_of(text);
    if (lines.size() > 600) found.push_back({path, "over 600 lines: split it by noun or verb"});
    std::size_t opened = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string& line = lines[i];
        const std::string at = path + ":" + std::to_string(i + 1);
        std::size_t columns = 0;
        for (const char c : line)
            columns += (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
        const bool code = line.find("//") == std::string::npos;
        if (columns > (code ? 100u : 125u)) found.push_back({at, "line too long"});
        // A function at namespace level: its head starts in column 0 and its body ends with a brace
        // there.
        static const std::regex scope(
            R"(^(namespace|class|struct|enum|union|extern|constexpr|const|static const)\b.*\{$)"
            R"(|^inline constexpr\b.*\{$|^template <[^>]*>\s*(class|struct)\b.*\{$)");
        if (!line.empty() && line[0] != ' ' && line.back() == '{' &&
            !std::regex_search(line, scope))
            opened = i + 1;
        if (line.rfind('}', 0) == 0 && opened != 0) {
            if (i + 1 - opened > 71) found.push_back({at, "function over 70 lines"});
            opened = 0;
        }
    }
    return found;
}

struct Banned {
    const char* pattern;
    const char* instead;
    const char* exempt;  // a regex of paths
    std::regex word{pattern}, where{exempt};
};

std::vector<Finding> check_words(const std::string& path, const std::string& text) {
    static const std::vector<Banned> banned = {
        {R"(\bthrow\b)", "return an Error", "^$"},
        {R"(\bshared_ptr\b)", "Lease, unique_ptr or a reference", "^(tools|tests|tirpc|nfs)/"},
        {R"(\breinterpret_cast\b)", "base/bytes.hpp", "^(base/bytes\\.hpp|base/sock_addr|verbs/)"},
        {R"(\b(htonl|htons|ntohl|ntohs)\b)", "base/bytes.hpp", "^(base/sock_addr|tests/)"},
        {R"(\bvolatile\b)", "std::atomic", "^$"},
        {R"(\b(rand|srand)\()", "base/prng.hpp", "^$"},
        {R"(\b(sleep|usleep)\()", "Loop and Timer", "^(tools/|tests/tirpc/|base/loop)"},
        {R"(\busing namespace\b)", "qualified names", "^(examples|tirpc)/"},
        {R"(\bTODO\b(?!\(#\d+\)))", "TODO(#issue)", "^$"},
        {R"(\b(FIXME|XXX)\b)", "TODO(#issue)", "^$"},
    };
    // What the upper floors may not name: pools/io hides the registration strategy.
    static const std::vector<Banned> hidden = {
        {R"(\blkey\b)", "pools::Io::sge", ""},
        {R"(\bAccess::)", "pools::Io::expose_read/expose_write", ""},
        {R"(\breg_mr\b)", "pools::Io::expose_read/expose_write", ""},
        {R"(\blocal_inv\b)", "pools::Io::fence", ""},
    };
    std::vector<Finding> found;
    std::size_t number = 0;
    for (std::string line : lines_of(text)) {
        ++number;
        const std::size_t comment = line.find("//");
        const std::string code = line.substr(0, comment);
        const std::string at = path + ":" + std::to_string(number);
        for (const Banned& word : banned) {
            if (std::regex_search(path, word.where) && std::string(word.exempt) != "^$") continue;
            const bool in_comments = std::string(word.pattern).find("TODO") != std::string::npos ||
                                     std::string(word.pattern).find("FIXME") != std::string::npos;
            if (std::regex_search(in_comments ? line : code, word.word)) {
                found.push_back({at, std::string(word.pattern) + ": use " + word.instead});
            }
        }
        const std::string mine = floor_of(path);
        if (mine != "xprtrdma" && mine != "svcrdma") continue;
        for (const Banned& word : hidden) {
            if (std::regex_search(code, word.word)) {
                found.push_back({at, std::string(word.pattern) + ": use " + word.instead});
            }
        }
    }
    return found;
}

// Where a source's tests stand. A folder of small siblings (one procedure a file) shares one test a
// group.
std::vector<std::string> tests_for(const std::string& path) {
    const fs::path p(path);
    const std::string stem = p.stem().string();
    const std::string folder = p.parent_path().string();
    return {"tests/" + folder + "/" + stem + "_test.cpp"};
}

std::string read(const fs::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// Every C++ file of the tree, relative to its root. ctest runs the tests in the root.
std::vector<std::string> tree() {
    std::vector<std::string> files;
    for (const char* top : {"base", "sunrpc", "verbs", "rpcrdma", "pools", "xprtrdma", "svcrdma",
                            "nfs", "devices", "tirpc", "tools", "examples", "tests"}) {
        for (const auto& entry : fs::recursive_directory_iterator(top)) {
            const std::string ext = entry.path().extension().string();
            if (entry.is_regular_file() && (ext == ".cpp" || ext == ".hpp"))
                files.push_back(entry.path().string());
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::string listing(const std::vector<Finding>& found) {
    std::string text;
    for (const Finding& f : found)
        text += f.where + ": " + f.what + "\n";
    return text;
}

TEST(TidyRules, FloorsPointDown) {
    EXPECT_TRUE(check_floors("pools/io.cpp", "#include \"verbs/device.hpp\"\n").empty());
    EXPECT_EQ(check_floors("pools/io.cpp", "#include \"sunrpc/xprt.hpp\"\n").size(), 1u);
    EXPECT_EQ(check_floors("nfs/server/on_read.cpp", "#include \"pools/io.hpp\"\n").size(), 1u);
    EXPECT_EQ(check_floors("xprtrdma/plan.cpp", "#include \"svcrdma/listener.hpp\"\n").size(), 1u);
    EXPECT_EQ(check_floors("pools/io.cpp", "#include \"verbs/softroce/qp.hpp\"\n").size(), 1u);
    EXPECT_EQ(check_floors("base/loop.cpp", "#include \"../verbs/wr.hpp\"\n").size(), 2u);
    EXPECT_TRUE(check_floors("tools/nfsrdma/main.cpp", "#include \"verbs/softroce/softroce.hpp\"\n")
                    .empty());
}

TEST(TidyRules, LengthsAreBounded) {
    EXPECT_EQ(check_lengths("a.cpp", std::string(101, 'x') + "\n").size(), 1u);
    EXPECT_TRUE(check_lengths("a.cpp", std::string(100, 'x') + "\n").empty());
    std::string function = "void f() {\n";
    for (int i = 0; i < 71; ++i)
        function += "    x();\n";
    EXPECT_EQ(check_lengths("a.cpp", function + "}\n").size(), 1u);
    std::string lines;
    for (int i = 0; i < 601; ++i)
        lines += "x\n";
    EXPECT_EQ(check_lengths("a.cpp", lines).size(), 1u);
}

TEST(TidyRules, WordsAreBanned) {
    EXPECT_EQ(check_words("base/x.cpp", "    throw 1;\n").size(), 1u);
    EXPECT_EQ(check_words("base/x.cpp", "// TODO later\n").size(), 1u);
    EXPECT_TRUE(check_words("base/x.cpp", "// TODO(#12): later\n").empty());
    EXPECT_TRUE(check_words("base/x.cpp", "// nothing is thrown; volatile is not used\n").empty());
    EXPECT_EQ(check_words("xprtrdma/x.cpp", "    wr.op = verbs::SendOp::reg_mr;\n").size(), 1u);
    EXPECT_TRUE(check_words("pools/x.cpp", "    wr.op = verbs::SendOp::reg_mr;\n").empty());
    EXPECT_EQ(check_words("nfs/x.cpp", "    auto* p = reinterpret_cast<char*>(q);\n").size(), 1u);
    EXPECT_TRUE(check_words("verbs/x.cpp", "    auto* p = reinterpret_cast<char*>(q);\n").empty());
}

TEST(Tidy, FloorsHold) {
    std::vector<Finding> found;
    for (const std::string& path : tree()) {
        for (Finding& f : check_floors(path, read(path)))
            found.push_back(std::move(f));
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Tidy, LengthsHold) {
    std::vector<Finding> found;
    for (const std::string& path : tree()) {
        for (Finding& f : check_lengths(path, read(path)))
            found.push_back(std::move(f));
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Tidy, NoBannedWords) {
    std::vector<Finding> found;
    for (const std::string& path : tree()) {
        if (path == "tests/tidy_test.cpp") continue;
        for (Finding& f : check_words(path, read(path)))
            found.push_back(std::move(f));
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Tidy, EverySourceHasItsTest) {
    std::vector<Finding> found;
    for (const std::string& path : tree()) {
        if (fs::path(path).extension() != ".cpp" || floor_of(path).empty()) continue;
        const std::vector<std::string> tests = tests_for(path);
        const bool there = std::any_of(tests.begin(), tests.end(),
                                       [](const std::string& t) { return fs::exists(t); });
        if (!there) found.push_back({path, "no test at " + tests.front()});
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

}  // namespace
}  // namespace nfsrdma
