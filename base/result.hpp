#pragma once
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/assert.hpp"

namespace nfsrdma {
// An error is named by what its receiver does next, not by where it arose.
enum class Errc : std::uint8_t {
    again,        // call again with the same arguments once a resource comes back
    reconnect,    // the connection is gone; the RPC is sent afresh on the next one
    too_big,      // does not fit the negotiated limits; fail this RPC alone
    bad_message,  // the peer broke the protocol; answer RDMA_ERROR or close
    unsupported,  // this device or peer cannot do it; take the other path
    timed_out,
    closed,            // shut down on purpose; nothing to retry
    invalid_argument,  // the caller's own input cannot be used; tell the user
    refused,           // the peer said no (CM REJ, MSG_DENIED)
    system,            // `sys` holds errno
};
const char* to_string(Errc code) noexcept;

struct Error {
    Errc code;
    std::int32_t sys = 0;
    const char* what = "";  // a string literal: the step that failed
};
// "system: open export: Permission denied"
std::string to_string(const Error& error);

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value)  // NOLINT(google-explicit-constructor)
        : v_(std::in_place_index<0>, std::move(value)) {}
    // NOLINTNEXTLINE(google-explicit-constructor)
    Result(Error error) : v_(std::in_place_index<1>, error) {}
    explicit operator bool() const noexcept { return v_.index() == 0; }
    // Reading what is not there is our own bug.
    T& operator*() & noexcept {
        NR_ASSERT(v_.index() == 0);
        return *std::get_if<0>(&v_);
    }
    T&& operator*() && noexcept {
        NR_ASSERT(v_.index() == 0);
        return std::move(*std::get_if<0>(&v_));
    }
    T* operator->() noexcept {
        NR_ASSERT(v_.index() == 0);
        return std::get_if<0>(&v_);
    }
    const Error& error() const noexcept {
        NR_ASSERT(v_.index() == 1);
        return *std::get_if<1>(&v_);
    }

  private:
    std::variant<T, Error> v_;
};
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    // NOLINTNEXTLINE(google-explicit-constructor)
    Result(Error error) : failed_(true), error_(error) {}
    explicit operator bool() const noexcept { return !failed_; }
    const Error& error() const noexcept { return error_; }

  private:
    bool failed_ = false;
    Error error_{};
};
#define NR_CONCAT_(a, b) a##b
#define NR_CONCAT(a, b) NR_CONCAT_(a, b)
#define NR_TRY(expr)                                           \
    do {                                                       \
        if (auto nr_r_ = (expr); !nr_r_) return nr_r_.error(); \
    } while (false)
#define NR_TRY_ASSIGN_(tmp, decl, expr) \
    auto tmp = (expr);                  \
    if (!tmp) return tmp.error();       \
    decl = *std::move(tmp)
#define NR_TRY_ASSIGN(decl, expr) NR_TRY_ASSIGN_(NR_CONCAT(nr_r_, __LINE__), decl, expr)
}  // namespace nfsrdma
