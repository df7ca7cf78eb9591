#include <cerrno>

#include <gtest/gtest.h>

#include "base/result.hpp"

namespace nfsrdma {
namespace {

TEST(Error, NamesCodeStepAndErrno) {
    EXPECT_EQ(to_string(Error{Errc::system, EACCES, "open export"}),
              "system: open export: Permission denied");
    EXPECT_EQ(to_string(Error{Errc::too_big, 0, "call"}), "too big: call");
    EXPECT_EQ(to_string(Error{Errc::closed}), "closed");
}

TEST(Error, EveryCodeHasItsOwnName) {
    std::string before;
    for (int code = 0; code <= static_cast<int>(Errc::system); ++code) {
        const std::string name = to_string(static_cast<Errc>(code));
        EXPECT_NE(name, "unknown");
        EXPECT_NE(name, before);
        before = name;
    }
}

Result<int> half(int value) {
    if (value % 2 != 0) return Error{Errc::invalid_argument, 0, "odd"};
    return value / 2;
}

Result<int> quarter(int value) {
    NR_TRY_ASSIGN(const int h, half(value));
    return half(h);
}

TEST(Result, TryPassesTheErrorOn) {
    EXPECT_EQ(*quarter(8), 2);
    EXPECT_EQ(quarter(6).error().code, Errc::invalid_argument);
    EXPECT_STREQ(quarter(3).error().what, "odd");
}

TEST(Result, VoidIsFineUnlessGivenAnError) {
    const Result<void> fine;
    EXPECT_TRUE(fine);
    const Result<void> bad = Error{Errc::again};
    EXPECT_FALSE(bad);
    EXPECT_EQ(bad.error().code, Errc::again);
}

}  // namespace
}  // namespace nfsrdma
