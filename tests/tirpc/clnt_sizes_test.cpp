#include "tirpc/clnt_sizes.hpp"

#include <bit>
#include <string>

#include <gtest/gtest.h>

#include "testprog.h"
#include "tests/tirpc/clnt_world.hpp"

namespace nfsrdma::tirpc::test {
namespace {

struct Arguments {
    explicit Arguments(std::uint32_t bytes) : data(bytes, 'x') {
        args.fh.fh_len = 5;
        args.fh.fh_val = handle;
        args.data.data_len = bytes;
        args.data.data_val = data.data();
    }
    std::string data;
    char handle[FHMAX + 4] = "abcde";
    wargs args{};
};

const sunrpc::DdpItem kData{.pointer_offset = offsetof(wargs, data.data_val),
                            .string_bound = 0,
                            .min = 100,
                            .match = nullptr};

TEST(ClntSizes, AreThoseOfLibtirpc) {
    for (const std::uint32_t bytes : {0u, 1u, 99u, 100u, 1001u}) {
        Arguments with(bytes);
        const XdrSizes sizes = measure(routine(xdr_wargs), &with.args, {});
        EXPECT_TRUE(sizes.encodes);
        EXPECT_EQ(sizes.item, 0u);
        EXPECT_EQ(sizes.bytes, xdr_sizeof(routine(xdr_wargs), &with.args)) << bytes;
    }
}

TEST(ClntSizes, TheItemCountsApartFromItsLimitOn) {
    Arguments below(99), at(100), odd(101);
    EXPECT_EQ(measure(routine(xdr_wargs), &below.args, kData).item, 0u);
    EXPECT_EQ(measure(routine(xdr_wargs), &at.args, kData).item, 100u);
    const XdrSizes sizes = measure(routine(xdr_wargs), &odd.args, kData);
    EXPECT_EQ(sizes.item, 101u);
    EXPECT_EQ(sizes.bytes + 101, xdr_sizeof(routine(xdr_wargs), &odd.args));
}

TEST(ClntSizes, ARoutineThatFailsIsTold) {
    Arguments too_long(10);
    too_long.args.fh.fh_len = FHMAX + 1;
    EXPECT_FALSE(measure(routine(xdr_wargs), &too_long.args, {}).encodes);
}

}  // namespace
}  // namespace nfsrdma::tirpc::test
