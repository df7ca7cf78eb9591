#pragma once
#include <cstdint>

#include "base/assert.hpp"

namespace nfsrdma {

// Membership of one object in one List. An object in several lists at once inherits from several
// tagged hooks.
template <class Tag = void>
struct ListHook {
    ListHook* next = nullptr;
    ListHook* prev = nullptr;
    ListHook() = default;
    ListHook(const ListHook&) = delete;
    ListHook& operator=(const ListHook&) = delete;
    ~ListHook() { NR_DCHECK(!linked()); }
    bool linked() const noexcept { return next != nullptr; }
};

// Intrusive doubly linked list of T, which inherits from ListHook<Tag>. Owns nothing and allocates
// nothing.
template <class T, class Tag = void>
class List {
  public:
    using Hook = ListHook<Tag>;
    List() noexcept { head_.next = head_.prev = &head_; }
    ~List() {
        clear();
        head_.next = head_.prev = nullptr;
    }
    List(const List&) = delete;
    List& operator=(const List&) = delete;

    bool empty() const noexcept { return head_.next == &head_; }
    std::uint32_t size() const noexcept { return size_; }
    T& front() noexcept { return to_object(*check_not_empty(head_.next)); }
    T& back() noexcept { return to_object(*check_not_empty(head_.prev)); }
    void push_back(T& object) noexcept { insert_before(head_, object); }
    void push_front(T& object) noexcept { insert_before(*head_.next, object); }
    T& pop_front() noexcept {
        T& object = front();
        erase(object);
        return object;
    }
    void erase(T& object) noexcept {
        Hook& hook = object;
        NR_DCHECK(hook.linked());
        hook.prev->next = hook.next;
        hook.next->prev = hook.prev;
        hook.next = hook.prev = nullptr;
        --size_;
    }
    void clear() noexcept {
        while (!empty())
            pop_front();
    }
    // Moves everything of `other` behind what is here.
    void splice_back(List& other) noexcept {
        while (!other.empty())
            push_back(other.pop_front());
    }

    class iterator {  // NOLINT(readability-identifier-naming): the name that range-for users expect
      public:
        explicit iterator(Hook* at) noexcept : at_(at) {}
        T& operator*() const noexcept { return to_object(*at_); }
        T* operator->() const noexcept { return &to_object(*at_); }
        iterator& operator++() noexcept {
            at_ = at_->next;
            return *this;
        }
        bool operator==(const iterator&) const = default;

      private:
        Hook* at_;
    };
    iterator begin() noexcept { return iterator(head_.next); }
    iterator end() noexcept { return iterator(&head_); }

  private:
    static T& to_object(Hook& hook) noexcept { return static_cast<T&>(hook); }
    Hook* check_not_empty(Hook* hook) noexcept {
        NR_ASSERT(!empty());
        return hook;
    }
    void insert_before(Hook& at, T& object) noexcept {
        Hook& hook = object;
        NR_DCHECK(!hook.linked());
        hook.next = &at;
        hook.prev = at.prev;
        at.prev->next = &hook;
        at.prev = &hook;
        ++size_;
    }
    Hook head_;
    std::uint32_t size_ = 0;
};

}  // namespace nfsrdma
