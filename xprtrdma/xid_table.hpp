#pragma once
#include <cstdint>
#include <memory>

namespace nfsrdma::xprtrdma {

struct Req;

// XID -> Req, for at most `calls` entries: open addressing at half load, nothing allocated after
// the constructor.
class XidTable {
  public:
    explicit XidTable(std::uint32_t calls);
    // False: the XID is in use.
    bool insert(std::uint32_t xid, Req& req) noexcept;
    Req* find(std::uint32_t xid) const noexcept;
    void erase(std::uint32_t xid) noexcept;
    std::uint32_t size() const noexcept { return size_; }

  private:
    struct Entry {
        std::uint32_t xid = 0;
        Req* req = nullptr;  // nullptr: free
    };
    std::uint32_t home_of(std::uint32_t xid) const noexcept;
    std::uint32_t mask_ = 0, shift_ = 0, size_ = 0, calls_ = 0;
    std::unique_ptr<Entry[]> entries_;
};

}  // namespace nfsrdma::xprtrdma
