#include <utility>

#include "tools/rpcrdma_stress/worker.hpp"

// After calls whose fate is not known.
namespace nfsrdma::stress {

// With `verify` what the file holds is read first, allowing for both.
void Worker::settle(std::optional<Object>& slot, bool verify) {
    settling_ = true;
    if (!verify || !slot) return give_up(slot);
    Object& file = *slot;
    read_range(range_of(file), 0, file.model.size_max() + 1, [this, &slot] { give_up(slot); });
}

void Worker::give_up(std::optional<Object>& slot) {
    if (!slot) return step_done();
    ++field_.tally().files_given_up;
    const Object object = *std::exchange(slot, std::nullopt);
    sweep(object.names, object.type == NF3DIR, [this] { step_done(); });
}

// Removes these names if they are there; they may come back.
void Worker::sweep(std::vector<Name> names, bool directories, Next next) {
    settling_ = true;
    for (const Name& name : names) {
        forget(name);
        dirs_.at(name.dir).maybe.insert(name.text);
    }
    if (names.empty()) return next();
    const Name name = names.back();
    auto then = [this, names = std::move(names), directories, next = std::move(next)](
                    nfs::client::Op& op, bool sure) mutable {
        if (sure) {
            if (!expect(op, {NFS3_OK, NFS3ERR_NOENT})) return;
            names.pop_back();
        }
        sweep(std::move(names), directories, std::move(next));
    };
    if (directories) {
        rmdir_.args.object = at(name, name_);
        issue(rmdir_, "RMDIR " + place(name),
              [this, then = std::move(then)](bool sure) mutable { then(rmdir_, sure); });
    } else {
        remove_.args.object = at(name, name_);
        issue(remove_, "REMOVE " + place(name),
              [this, then = std::move(then)](bool sure) mutable { then(remove_, sure); });
    }
}

}  // namespace nfsrdma::stress
