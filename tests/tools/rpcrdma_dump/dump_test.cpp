#include "tools/rpcrdma_dump/dump.hpp"

#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rpcrdma/hex_vector.hpp"

namespace nfsrdma::rpcrdma_dump {
namespace {

using rpcrdma::HexVector;
using testing::HasSubstr;
using testing::Not;

struct Dumped {
    bool good = false;
    std::string text;
};

Dumped dump(std::span<const std::byte> bytes) {
    std::ostringstream out;
    const bool good = dump_header(out, bytes);
    return {good, out.str()};
}

Dumped dump_vector(const std::string& name) {
    return dump(rpcrdma::load_hex_vector(name).bytes);
}

TEST(Dump, NamesEveryFieldOfACall) {
    const Dumped out = dump_vector("b03_all_lists");
    EXPECT_TRUE(out.good);
    for (const char* part :
         {"xid: 0x01020304", "vers: 1", "credits: 32", "proc: 0 (RDMA_MSG)",
          "Read chunk: 4096 bytes in 1 segment at position 40",
          "handle 0x00000107  length 4096  offset 0x00007f0000001000",
          "Write chunk: 8192 bytes in 2 segments", "Reply chunk: 4096 bytes in 1 segment",
          "position-zero Read chunk: none", "header: 112 bytes", "inline: 0 bytes"}) {
        EXPECT_THAT(out.text, HasSubstr(part));
    }
}

TEST(Dump, SaysWhatIsWrongAndMarksTheByte) {
    const Dumped out = dump_vector("b11d_write_discriminator_2");
    EXPECT_FALSE(out.good);
    EXPECT_THAT(out.text,
                HasSubstr("malformed: a discriminator that is neither 0 nor 1, at byte 20"));
    EXPECT_THAT(out.text, HasSubstr("answers ERR_CHUNK"));
    EXPECT_THAT(out.text, HasSubstr("16  00 00 00 00>00 00 00 02"));
    EXPECT_THAT(dump_vector("b11e_15_bytes").text, HasSubstr("drops it"));
    EXPECT_THAT(dump_vector("b11a_version_2").text, HasSubstr("answers ERR_VERS"));
}

TEST(Dump, JudgesACallByWhatFollows) {
    HexVector vector = rpcrdma::load_hex_vector(std::string("read_position_beyond_call"));
    EXPECT_TRUE(dump(vector.bytes).good);  // the message was left out
    vector.bytes.resize(vector.bytes.size() + 40);
    const Dumped out = dump(vector.bytes);
    EXPECT_FALSE(out.good);
    EXPECT_THAT(out.text, HasSubstr("as a Call: a Read position beyond the end of the Call"));
    EXPECT_THAT(out.text, HasSubstr("inline: 40 bytes"));
    EXPECT_FALSE(dump_vector("write_segments_overlap").good);
}

TEST(Dump, Errors) {
    EXPECT_THAT(dump_vector("error_vers").text, HasSubstr("ERR_VERS, versions 1 to 1"));
    EXPECT_THAT(dump_vector("error_chunk").text, HasSubstr("error: ERR_CHUNK"));
    EXPECT_FALSE(dump({}).good);
}

TEST(Dump, AgreesWithEveryVector) {
    for (const HexVector& vector : rpcrdma::load_hex_vectors()) {
        const Dumped out = dump(vector.bytes);
        EXPECT_FALSE(out.text.empty());
        if (vector.value("fault") != "none") {
            EXPECT_FALSE(out.good) << vector.name;
        } else if (vector.value("check") != "bad") {
            EXPECT_TRUE(out.good) << vector.name << "\n" << out.text;
        }
    }
}

TEST(DumpPrivateData, TellsOursFromOthers) {
    std::vector<std::byte> bytes(56);
    std::ostringstream other;
    EXPECT_FALSE(dump_private_data(other, bytes));
    EXPECT_THAT(other.str(), HasSubstr("malformed"));
    EXPECT_THAT(other.str(), HasSubstr("send size: 1024 bytes"));
    const int ours[] = {0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3, 63};
    for (std::size_t i = 0; i < 8; ++i)
        bytes[i] = static_cast<std::byte>(ours[i]);
    std::ostringstream out;
    EXPECT_TRUE(dump_private_data(out, bytes));
    EXPECT_THAT(out.str(), HasSubstr("remote invalidation: yes"));
    EXPECT_THAT(out.str(), HasSubstr("receive size: 65536 bytes"));
    EXPECT_THAT(out.str(), Not(HasSubstr("malformed")));
    std::ostringstream cut;
    EXPECT_FALSE(dump_private_data(cut, std::span(bytes).first(7)));
}

}  // namespace
}  // namespace nfsrdma::rpcrdma_dump
