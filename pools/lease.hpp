#pragma once
#include <utility>

namespace nfsrdma::pools {

// Sole ownership of a pooled object, which has `pool()` with `put(T&)`. Death returns it to its
// pool; donate() hands it to the device, and only a completion may reclaim it.
template <class T>
class Lease {
  public:
    Lease() = default;
    Lease(Lease&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept {
        Lease dead(std::move(*this));
        object_ = std::exchange(other.object_, nullptr);
        return *this;
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { reset(); }
    void reset() noexcept {
        if (object_ != nullptr) {
            T& dead = *std::exchange(object_, nullptr);
            dead.pool().put(dead);
        }
    }
    T& operator*() const noexcept { return *object_; }
    T* operator->() const noexcept { return object_; }
    T* get() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    [[nodiscard]] T& donate() && noexcept { return *std::exchange(object_, nullptr); }
    static Lease reclaim(T& object) noexcept {
        Lease lease;
        lease.object_ = &object;
        return lease;
    }

  private:
    T* object_ = nullptr;
};

}  // namespace nfsrdma::pools
