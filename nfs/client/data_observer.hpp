#pragma once
#include <cstdint>

#include "nfs/nfs3_types.hpp"

namespace nfsrdma::nfs::client {

// What is told of calls that move a file's data for nobody in particular: WRITEs behind whoever
// wrote, READs ahead of whoever reads. Each call that was sent is told to be answered, once.
//
// Its lock is held while answers are looked at, and while anybody is called back because of them;
// who calls from outside holds it as well. So state that several loops share is safe under it.
class DataObserver {
  public:
    virtual void lock() noexcept = 0;
    virtual void unlock() noexcept = 0;
    // A WRITE or a COMMIT is being sent; what is returned comes back with its answer.
    virtual std::uint64_t change_sent() noexcept = 0;
    // Of what a WRITE was of, written or not: what was read of it before is not what is there.
    virtual void range_answered(std::uint64_t /*offset*/, std::uint64_t /*size*/) noexcept {}
    // nullptr: it told nothing.
    virtual void change_answered(std::uint64_t number, const wcc_data* told) noexcept = 0;
    virtual std::uint64_t read_sent() noexcept = 0;
    virtual void read_answered(std::uint64_t number, const post_op_attr* told) noexcept = 0;
    // What waits, is under way or is not durable is not what it was. Before anybody is called back.
    virtual void progressed() noexcept {}

  protected:
    DataObserver() = default;
    ~DataObserver() = default;
    DataObserver(const DataObserver&) = delete;
    DataObserver& operator=(const DataObserver&) = delete;
};

// Where there may be none.
class ObserverGuard {
  public:
    explicit ObserverGuard(DataObserver* observer) noexcept : observer_(observer) {
        if (observer_ != nullptr) observer_->lock();
    }
    ~ObserverGuard() {
        if (observer_ != nullptr) observer_->unlock();
    }
    ObserverGuard(const ObserverGuard&) = delete;
    ObserverGuard& operator=(const ObserverGuard&) = delete;

  private:
    DataObserver* observer_;
};

}  // namespace nfsrdma::nfs::client
