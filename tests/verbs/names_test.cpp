#include <set>
#include <string>

#include <gtest/gtest.h>

#include "verbs/cm.hpp"
#include "verbs/wr.hpp"

namespace nfsrdma::verbs {
namespace {

template <class E>
void all_differ(std::uint8_t count) {
    std::set<std::string> names;
    for (std::uint8_t i = 0; i < count; ++i)
        names.insert(to_string(static_cast<E>(i)));
    EXPECT_EQ(names.size(), count);
    // One behind the last has no name of its own: the count above covers the whole enumeration.
    EXPECT_EQ(std::string(to_string(static_cast<E>(count))).rfind("unknown", 0), 0u);
}

TEST(Names, EveryEnumeratorHasItsOwn) {
    all_differ<WcStatus>(9);
    all_differ<SendOp>(6);
    all_differ<CmEventType>(4);
}

}  // namespace
}  // namespace nfsrdma::verbs
