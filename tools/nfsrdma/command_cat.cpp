// cat: a file to standard output, in order, straight out of the memory that the READs filled.
#include <cerrno>
#include <map>
#include <unistd.h>

#include "nfs/client/read_file.hpp"
#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileReader;
using nfs::client::Outcome;

// Standard output may be a pipe whose reader takes its time: writing is left to a helper thread, or
// the connection would be kept waiting, too.
class Cat {
  public:
    explicit Cat(Session& session) : session_(session), reader_(session.client(), kDepth) {
        work_.run = on_helper;
        work_.done = on_written;
        work_.cat = this;
        reader_.user = this;
        reader_.on_data = [](FileReader& reader, FileReader::Slot& slot) noexcept {
            Cat& self = *static_cast<Cat*>(reader.user);
            self.waiting_.emplace(slot.offset(), &slot);
            self.write_next();
        };
        reader_.done = [](FileReader& reader) noexcept {
            static_cast<Cat*>(reader.user)->finished_ = true;
        };
    }
    Outcome run(const nfs::client::FileHandle& file, std::uint64_t size, std::uint64_t offset,
                std::uint64_t length) {
        finished_ = false;
        next_ = offset;
        FileReader::Options options;
        options.file = file;
        options.size_hint = size;
        options.offset = offset;
        options.length = length;
        reader_.start(options);
        session_.wait_or_leave([this] { return finished_; });
        bytes_ += reader_.bytes();
        return reader_.outcome;
    }
    std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    struct Work final : BlockingWork {
        Cat* cat = nullptr;
        FileReader::Slot* slot = nullptr;
        int error = 0;
    };
    static void on_helper(BlockingWork& base) noexcept {
        Work& work = static_cast<Work&>(base);
        work.error = 0;
        for (std::span<std::byte> left = work.slot->data(); !left.empty();) {
            const ssize_t moved = ::write(STDOUT_FILENO, left.data(), left.size());
            if (moved > 0) {
                left = left.subspan(static_cast<std::size_t>(moved));
            } else if (errno != EINTR) {
                work.error = errno;
                return;
            }
        }
    }
    static void on_written(BlockingWork& base) noexcept {
        Work& work = static_cast<Work&>(base);
        Cat& self = *work.cat;
        FileReader::Slot& slot = *std::exchange(work.slot, nullptr);
        if (work.error != 0) {
            self.stop(Outcome::failed(Error{Errc::system, work.error, "write to standard output"}));
        }
        self.next_ += slot.data().size();
        self.reader_.consumed(slot);
        self.write_next();
    }
    void write_next() noexcept {
        if (!reader_.outcome.ok()) stop(reader_.outcome);
        const auto first = waiting_.begin();
        if (work_.slot != nullptr || first == waiting_.end() || first->first != next_) return;
        work_.slot = first->second;
        waiting_.erase(first);
        session_.loop().submit(work_);
    }
    // What waits for its turn will not be written any more.
    void stop(const Outcome& why) noexcept {
        reader_.fail(why);
        while (!waiting_.empty()) {
            FileReader::Slot& slot = *waiting_.begin()->second;
            waiting_.erase(waiting_.begin());
            reader_.consumed(slot);
        }
    }

    Session& session_;
    FileReader reader_;
    Work work_;
    std::map<std::uint64_t, FileReader::Slot*> waiting_;
    std::uint64_t next_ = 0, bytes_ = 0;
    bool finished_ = false;
};

}  // namespace

int run_cat(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    const std::uint64_t begin = session->loop().now_ns();
    Cat cat(*session);
    for (const Url& url : urls) {
        if (session->interrupted()) break;
        const Found found = session->walk(url, true);
        Outcome outcome = found.outcome;
        if (outcome.ok() && found.attributes.type == NF3DIR)
            outcome = Outcome::failed(NFS3ERR_ISDIR);
        if (outcome.ok()) {
            outcome = cat.run(found.handle, found.attributes.size, options.offset, options.length);
        }
        if (outcome.ok()) continue;
        status = kFailed;
        // A reader that has seen enough is no news.
        if (!outcome.rpc && outcome.rpc.error().code == Errc::system &&
            outcome.rpc.error().sys == EPIPE)
            break;
        session->complain_about(url.text(), outcome);
    }
    const auto seconds =
        static_cast<double>(session->loop().now_ns() - begin) / static_cast<double>(kNsPerSec);
    session->print_summary({seconds, cat.bytes()}, JsonObject(), stderr);
    return session->status(status);
}

}  // namespace nfsrdma::tool
