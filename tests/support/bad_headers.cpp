#include "tests/support/bad_headers.hpp"

namespace nfsrdma::test {

std::vector<BadHeader> bad_headers() {
    std::vector<BadHeader> all;
    const auto fixed = [](std::uint32_t vers, std::uint32_t proc) {
        return Words().u32(kBadXid).u32(vers).u32(8).u32(proc);
    };
    all.push_back({"version 2", fixed(2, 0).u32(0).u32(0).u32(0).take(), true});
    all.push_back({"version 0", fixed(0, 0).u32(0).u32(0).u32(0).take(), true});
    all.push_back({"proc 5", fixed(1, 5).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back({"MSGP", fixed(1, 2).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back({"DONE", fixed(1, 3).take()});
    all.push_back({"ERROR", fixed(1, 4).u32(2).take()});
    for (int list = 0; list < 3; ++list) {
        Words w = fixed(1, 0);
        for (int i = 0; i < 3; ++i)
            w.u32(i == list ? 2 : 0);
        all.push_back({"discriminator 2", w.take(), false, true});
    }
    for (std::size_t n = 0; n < 28; ++n) {
        Bytes cut = fixed(1, 0).u32(0).u32(0).u32(0).take();
        cut.resize(n);
        all.push_back({"truncated", cut, false, n >= 16});
    }
    // B13: lists that run off what was received, or have more entries than there can be.
    Words endless = fixed(1, 0);
    while (endless.take().size() < 4000)
        endless.u32(1).u32(4).segment({1, 0, 0});
    all.push_back({"endless read list", endless.take(), false, true});
    all.push_back({"counts", fixed(1, 0).u32(0).u32(1).u32(0xFFFFFFFF).take(), false, true});
    all.push_back(
        {"no segments", fixed(1, 0).u32(0).u32(1).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back(
        {"reply count", fixed(1, 0).u32(0).u32(0).u32(1).u32(0x10000000).take(), false, true});
    all.push_back({"length overflow",
                   fixed(1, 0)
                       .u32(1)
                       .u32(4)
                       .segment({1, 0xFFFFFFFF, 0})
                       .u32(1)
                       .u32(4)
                       .segment({1, 0xFFFFFFFF, 0})
                       .u32(0)
                       .u32(0)
                       .u32(0)
                       .u64(1)
                       .take(),
                   false, true});
    all.push_back(
        {"offset overflow",
         fixed(1, 0).u32(1).u32(4).segment({1, 2, ~0ull}).u32(0).u32(0).u32(0).u64(1).take(), false,
         true});
    all.push_back({"nomsg without call", fixed(1, 1).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back(
        {"position beyond the call",
         fixed(1, 0).u32(1).u32(400).segment({1, 4, 0}).u32(0).u32(0).u32(0).u64(1).take(), false,
         true});
    all.push_back({"position unaligned",
                   fixed(1, 0).u32(1).u32(6).segment({1, 4, 0}).u32(0).u32(0).u32(0).u64(1).take(),
                   false, true});
    all.push_back(
        {"more than a run",
         fixed(1, 0).u32(1).u32(8).segment({1, 1u << 29, 0}).u32(0).u32(0).u32(0).u64(1).take(),
         false, true});
    return all;
}

}  // namespace nfsrdma::test
