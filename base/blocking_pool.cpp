#include "base/blocking_pool.hpp"

#include <algorithm>

#include "base/file_io.hpp"
#include "base/posted.hpp"

namespace nfsrdma {

BlockingPool::BlockingPool(Loop& loop, std::uint32_t threads) : loop_(loop) {
    const std::uint32_t count = std::max<std::uint32_t>(threads, 1);
    threads_.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        threads_.emplace_back([this] { serve(); });
    }
}

BlockingPool::~BlockingPool() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        works_.clear();
        ops_.clear();
    }
    more_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void BlockingPool::submit(BlockingWork& work) noexcept {
    {
        const std::lock_guard lock(mutex_);
        works_.push_back(work);
    }
    more_.notify_one();
}

void BlockingPool::submit(FileOp& op) noexcept {
    {
        const std::lock_guard lock(mutex_);
        ops_.push_back(op);
    }
    more_.notify_one();
}

void BlockingPool::serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
        more_.wait(lock, [this] { return closing_ || !works_.empty() || !ops_.empty(); });
        if (closing_) return;
        Posted finished;
        if (!ops_.empty() && (files_first_ || works_.empty())) {
            finished.op = &ops_.pop_front();
        } else {
            finished.work = &works_.pop_front();
        }
        files_first_ = !files_first_;
        lock.unlock();
        if (finished.op != nullptr) finished.op->result = run_file_op(*finished.op);
        if (finished.work != nullptr) finished.work->run(*finished.work);
        loop_.hand_over(finished);
        lock.lock();
    }
}

}  // namespace nfsrdma
