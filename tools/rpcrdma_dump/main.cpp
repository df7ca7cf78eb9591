#include <array>
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <string>

#include "tools/rpcrdma_dump/dump.hpp"
#include "tools/rpcrdma_dump/hex_text.hpp"

namespace {

constexpr int kOk = 0, kMalformed = 1, kUsage = 2;

struct Options {
    std::string file = "-";
    bool private_data = false;
};

void append_all(std::istream& in, std::string& text) {
    std::array<char, 4096> part{};
    do {
        in.read(part.data(), part.size());
        text.append(part.data(), static_cast<std::size_t>(in.gcount()));
    } while (in);
}

bool read_all(const std::string& file, std::string& text) {
    if (file == "-") {
        append_all(std::cin, text);
        return true;
    }
    std::ifstream in(file, std::ios::binary);
    if (!in) return false;
    append_all(in, text);
    return !in.bad();
}

int dump(const Options& options) {
    std::string text;
    if (!read_all(options.file, text)) {
        std::cerr << "rpcrdma-dump: cannot read " << options.file << "\n";
        return kUsage;
    }
    std::size_t line = 0;
    auto bytes = nfsrdma::rpcrdma_dump::parse_hex(text, line);
    if (!bytes) {
        std::cerr << "rpcrdma-dump: " << (options.file == "-" ? "standard input" : options.file)
                  << ", line " << line << ": " << bytes.error().what << "\n";
        return kUsage;
    }
    const bool good = options.private_data
                          ? nfsrdma::rpcrdma_dump::dump_private_data(std::cout, *bytes)
                          : nfsrdma::rpcrdma_dump::dump_header(std::cout, *bytes);
    return good ? kOk : kMalformed;
}

int run(int argc, char** argv) {
    CLI::App app{"Decodes an RPC-over-RDMA version 1 transport header (RFC 8166) from hex text"};
    Options options;
    app.add_option(
           "FILE", options.file,
           "hex text: spaces, newlines, 0x and '#' comments are allowed; - is standard input")
        ->capture_default_str();
    app.add_flag("--private-data", options.private_data,
                 "decode CM private data (RFC 8797) instead");
    app.footer(
        "Exit status: 0 well formed, 1 malformed, 2 the command line or the text cannot be used.");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kOk : kUsage;
    }
    return dump(options);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (...) {  // CLI11 throws for a wrong set of options; streams for a full disk
        return kUsage;
    }
}
