#pragma once
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "base/thread_annotations.hpp"

namespace nfsrdma {

// A few helper threads of one loop, for work that may block: BlockingWork, and file operations
// where the backend has no way of its own. What is finished goes back through Loop::hand_over.
class BlockingPool {
  public:
    BlockingPool(Loop& loop, std::uint32_t threads);
    ~BlockingPool();  // waits for what runs, drops what is queued
    BlockingPool(const BlockingPool&) = delete;
    BlockingPool& operator=(const BlockingPool&) = delete;

    void submit(BlockingWork& work) noexcept;
    void submit(FileOp& op) noexcept;

  private:
    void serve() noexcept;

    Loop& loop_;
    std::mutex mutex_;
    std::condition_variable more_;
    bool closing_ = false;     // the four lines below: under mutex_
    bool files_first_ = true;  // the kinds take turns, so that neither starves
    List<BlockingWork, BlockingWork> works_;
    List<FileOp, FileOp> ops_;
    std::vector<std::thread> threads_;
};

}  // namespace nfsrdma
