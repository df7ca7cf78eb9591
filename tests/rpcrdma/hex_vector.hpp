#pragma once
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

// A file of tests/vectors/rpcrdma: "#= key value" lines say what to expect, "#" begins a comment,
// the rest is hex.
namespace nfsrdma::rpcrdma {

struct HexVector {
    std::string name;
    std::vector<std::byte> bytes;
    std::vector<std::pair<std::string, std::string>> expect;

    std::string value(const std::string& key) const {
        for (const auto& [k, v] : expect) {
            if (k == key) return v;
        }
        return {};
    }
    std::vector<std::string> values(const std::string& key) const {
        std::vector<std::string> all;
        for (const auto& [k, v] : expect) {
            if (k == key) all.push_back(v);
        }
        return all;
    }
};

inline HexVector load_hex_vector(const std::filesystem::path& path) {
    HexVector vector;
    vector.name = path.stem().string();
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        if (line.rfind("#= ", 0) == 0) {
            const std::size_t space = line.find(' ', 3);
            vector.expect.emplace_back(line.substr(3, space - 3), line.substr(space + 1));
        }
        std::string digits;
        for (const char c : line.substr(0, line.find('#'))) {
            if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits.push_back(c);
        }
        for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
            vector.bytes.push_back(
                static_cast<std::byte>(std::stoul(digits.substr(i, 2), nullptr, 16)));
        }
    }
    return vector;
}

inline std::vector<HexVector> load_hex_vectors() {
    std::vector<HexVector> all;
    for (const auto& entry : std::filesystem::directory_iterator("tests/vectors/rpcrdma")) {
        if (entry.path().extension() == ".hex") all.push_back(load_hex_vector(entry.path()));
    }
    std::sort(all.begin(), all.end(),
              [](const HexVector& a, const HexVector& b) { return a.name < b.name; });
    return all;
}

inline HexVector load_hex_vector(const std::string& name) {
    return load_hex_vector(std::filesystem::path("tests/vectors/rpcrdma") / (name + ".hex"));
}

}  // namespace nfsrdma::rpcrdma
