#include "base/list.hpp"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

struct FirstTag;
struct Item : ListHook<FirstTag>, ListHook<> {
    explicit Item(char c) : name(c) {}
    char name;
};

template <class L>
std::string names(L& list) {
    std::string out;
    for (Item& item : list)
        out += item.name;
    return out;
}

TEST(List, AnObjectMayBeInTwoListsAtOnce) {
    Item a('a'), b('b'), c('c');
    List<Item, FirstTag> first;
    List<Item> second;
    first.push_back(a);
    first.push_back(b);
    first.push_front(c);
    second.push_back(b);
    EXPECT_EQ(names(first), "cab");
    EXPECT_EQ(names(second), "b");
    first.erase(a);
    EXPECT_EQ(names(first), "cb");
    EXPECT_EQ(&first.pop_front(), &c);
    EXPECT_EQ(first.size(), 1u);
    EXPECT_EQ(&first.back(), &b);
    first.clear();
    EXPECT_TRUE(first.empty());
    EXPECT_EQ(names(second), "b");
}

TEST(List, SpliceKeepsOrderAndEmptiesTheOther) {
    Item a('a'), b('b'), c('c');
    List<Item> one, two;
    one.push_back(a);
    two.push_back(b);
    two.push_back(c);
    one.splice_back(two);
    EXPECT_EQ(names(one), "abc");
    EXPECT_TRUE(two.empty());
    EXPECT_EQ(one.size(), 3u);
}

TEST(ListDeathTest, FrontOfAnEmptyListAsserts) {
    List<Item> list;
    EXPECT_DEATH(list.front(), "assertion failed");
}

}  // namespace
}  // namespace nfsrdma
