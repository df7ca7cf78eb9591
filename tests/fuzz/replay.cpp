#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "fuzz_targets.hpp"

// Runs every input of every corpus through its target, as the fuzzer would: whatever once crashed
// stays fixed. Each input is also cut at every length and changed a little, with a fixed seed, so
// that a plain build fuzzes a bit as well.
namespace nfsrdma::fuzz {
namespace {

using Input = std::vector<std::uint8_t>;

std::vector<std::filesystem::path> corpus_of(const std::string& target) {
    std::vector<std::filesystem::path> files;
    const std::filesystem::path folder = std::filesystem::path("tests/fuzz/corpus") / target;
    if (!std::filesystem::exists(folder)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

Input load(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A copy of exactly the size, so that a sanitizer sees every read beyond it.
void run(const Target& target, const Input& input, std::size_t size) {
    const Input exact(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size));
    (void)target.run(exact.data(), exact.size());
}

void change(Input& input, Prng& prng) {
    constexpr std::uint8_t kEdges[] = {0x00, 0x01, 0x02, 0x04, 0x7F, 0x80, 0xFE, 0xFF};
    for (std::uint64_t i = 1 + prng.below(3); i > 0 && !input.empty(); --i) {
        std::uint8_t& byte = input[prng.below(input.size())];
        if (prng.below(2) == 0) {
            byte = kEdges[prng.below(std::size(kEdges))];
        } else {
            byte = static_cast<std::uint8_t>(byte ^ (1u << prng.below(8)));
        }
    }
}

class Replay : public testing::TestWithParam<Target> {};

TEST_P(Replay, Corpus) {
    const auto files = corpus_of(GetParam().name);
    EXPECT_FALSE(files.empty()) << "tests/fuzz/corpus/" << GetParam().name << " has no inputs";
    for (const auto& file : files) {
        SCOPED_TRACE(file.string());
        const Input input = load(file);
        run(GetParam(), input, input.size());
    }
    run(GetParam(), {}, 0);
}

TEST_P(Replay, CutAndChanged) {
    constexpr std::size_t kCutsMax = 512;
    constexpr int kChanges = 64;
    Prng prng(1);
    for (const auto& file : corpus_of(GetParam().name)) {
        const Input input = load(file);
        for (std::size_t size = 0; size < std::min(input.size(), kCutsMax); ++size)
            run(GetParam(), input, size);
        for (int i = 0; i < kChanges; ++i) {
            Input changed = input;
            change(changed, prng);
            run(GetParam(), changed, changed.size());
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, testing::ValuesIn(kTargets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace nfsrdma::fuzz
