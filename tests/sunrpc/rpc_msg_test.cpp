#include "sunrpc/rpc_msg.hpp"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <rpc/rpc.h>

#include "base/bytes.hpp"
#include "base/prng.hpp"

namespace nfsrdma::sunrpc {
namespace {

AuthSys some_sys(std::uint32_t groups) {
    AuthSys sys;
    sys.stamp = 7;
    std::strcpy(sys.machine.data(), "client");
    sys.uid = 1000;
    sys.gid = 100;
    sys.group_count = groups;
    for (std::uint32_t i = 0; i < groups; ++i)
        sys.groups.at(i) = 5000 + i;
    return sys;
}

std::vector<std::byte> call_bytes(const AuthSys* sys) {
    std::vector<std::byte> out(call_header_size(sys));
    CallHeader header;
    header.xid = 0x11223344;
    header.prog = 100003;
    header.vers = 3;
    header.proc = 6;
    Result<std::uint32_t> size = encode_call(out, header, sys);
    EXPECT_TRUE(size);
    EXPECT_EQ(*size, out.size());
    return out;
}

std::vector<std::byte> words(std::initializer_list<std::uint32_t> values) {
    std::vector<std::byte> out(values.size() * 4);
    std::size_t at = 0;
    for (const std::uint32_t value : values) {
        store_be32(out.data() + at, value);
        at += 4;
    }
    return out;
}

TEST(CallHeader, RoundTripWithEveryNumberOfGroups) {
    for (std::uint32_t groups = 0; groups <= kAuthSysGroupsMax; ++groups) {
        const AuthSys sys = some_sys(groups);
        const std::vector<std::byte> bytes = call_bytes(&sys);
        CallHeader out;
        ASSERT_EQ(decode_call(bytes, out), CallFault::none);
        EXPECT_EQ(out.xid, 0x11223344u);
        EXPECT_EQ(out.prog, 100003u);
        EXPECT_EQ(out.vers, 3u);
        EXPECT_EQ(out.proc, 6u);
        EXPECT_EQ(out.flavor, AuthFlavor::sys);
        EXPECT_STREQ(out.sys.machine.data(), "client");
        EXPECT_EQ(out.sys.uid, 1000u);
        EXPECT_EQ(out.sys.gid, 100u);
        ASSERT_EQ(out.sys.group_count, groups);
        for (std::uint32_t i = 0; i < groups; ++i)
            EXPECT_EQ(out.sys.groups.at(i), 5000 + i);
        EXPECT_EQ(out.size, bytes.size());
    }
}

TEST(CallHeader, AuthNoneIsFortyBytes) {
    const std::vector<std::byte> bytes = call_bytes(nullptr);
    EXPECT_EQ(bytes.size(), 40u);
    CallHeader out;
    EXPECT_EQ(decode_call(bytes, out), CallFault::none);
    EXPECT_EQ(out.flavor, AuthFlavor::none);
}

TEST(CallHeader, LibtirpcDecodesOurs) {
    const AuthSys sys = some_sys(3);
    std::vector<std::byte> bytes = call_bytes(&sys);
    XDR xdr{};
    xdrmem_create(&xdr, as_chars(bytes.data()), static_cast<u_int>(bytes.size()), XDR_DECODE);
    rpc_msg msg{};
    std::array<char, MAX_AUTH_BYTES> cred{}, verf{};
    msg.rm_call.cb_cred.oa_base = cred.data();
    msg.rm_call.cb_verf.oa_base = verf.data();
    ASSERT_TRUE(xdr_callmsg(&xdr, &msg));
    EXPECT_EQ(msg.rm_xid, 0x11223344u);
    EXPECT_EQ(msg.rm_call.cb_prog, 100003u);
    EXPECT_EQ(msg.rm_call.cb_cred.oa_flavor, AUTH_SYS);
    XDR body{};
    xdrmem_create(&body, cred.data(), msg.rm_call.cb_cred.oa_length, XDR_DECODE);
    authunix_parms parms{};
    ASSERT_TRUE(xdr_authunix_parms(&body, &parms));
    EXPECT_STREQ(parms.aup_machname, "client");
    EXPECT_EQ(parms.aup_len, 3u);
    EXPECT_EQ(parms.aup_gids[2], 5002u);
    body.x_op = XDR_FREE;
    xdr_authunix_parms(&body, &parms);
}

TEST(CallHeader, TooSmallARoomIsTooBig) {
    const AuthSys sys = some_sys(16);
    std::vector<std::byte> out(call_header_size(&sys) - 4);
    Result<std::uint32_t> size = encode_call(out, CallHeader{}, &sys);
    ASSERT_FALSE(size);
    EXPECT_EQ(size.error().code, Errc::too_big);
}

// The number of groups, from the wire, is bounded before anything is done with it.
TEST(B58, GroupCountOverSixteenIsBadCredential) {
    for (const std::uint32_t count : {17u, 0x40000001u, 0x40000000u, 0xFFFFFFFFu}) {
        const std::vector<std::byte> bytes =
            words({1, 0, 2, 100003, 3, 0, 1, 24, 0, 0, 0, 0, count, 7, 0, 0});
        CallHeader out;
        EXPECT_EQ(decode_call(bytes, out), CallFault::bad_cred) << count;
        EXPECT_EQ(out.xid, 1u);
    }
    // Sixteen that are not all there.
    const std::vector<std::byte> bytes =
        words({1, 0, 2, 100003, 3, 0, 1, 24, 0, 0, 0, 0, 16, 7, 0, 0});
    CallHeader out;
    EXPECT_EQ(decode_call(bytes, out), CallFault::bad_cred);
}

TEST(B61, EveryPrefixOfACallHasItsAnswer) {
    const AuthSys sys = some_sys(2);
    const std::vector<std::byte> bytes = call_bytes(&sys);
    const std::size_t cred_end = bytes.size() - 8;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        // A copy of its own, so that a sanitizer sees a read behind its end.
        const std::vector<std::byte> prefix(bytes.begin(),
                                            bytes.begin() + static_cast<std::ptrdiff_t>(size));
        CallHeader out;
        const CallFault fault = decode_call(prefix, out);
        if (size < 8) {
            EXPECT_EQ(fault, CallFault::drop) << size;
        } else if (size < 24) {
            EXPECT_EQ(fault, CallFault::garbage) << size;
        } else if (size < cred_end) {
            EXPECT_EQ(fault, CallFault::bad_cred) << size;
        } else {
            EXPECT_EQ(fault, CallFault::bad_verf) << size;
        }
    }
}

TEST(B61, LengthsOfTheWireAreBounded) {
    CallHeader out;
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 0, 0xFFFFFFFF, 0, 0}), out),
              CallFault::bad_cred);
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 0, 401, 0, 0}), out), CallFault::bad_cred);
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 0, 0, 0, 0xFFFFFFFF}), out),
              CallFault::bad_verf);
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 0, 0, 0, 0xFFFFFFFD}), out),
              CallFault::bad_verf);
    // A machine name longer than the credential, and longer than its bound.
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 1, 20, 0, 0xFFFFFFFF, 0, 0, 0, 0, 0}), out),
              CallFault::bad_cred);
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 1, 20, 0, 256, 0, 0, 0, 0, 0}), out),
              CallFault::bad_cred);
}

TEST(CallHeader, VerifierOfFullLengthIsSkipped) {
    std::vector<std::byte> bytes = words({1, 0, 2, 3, 4, 5, 0, 0, 0, 400});
    bytes.resize(bytes.size() + 400);
    CallHeader out;
    EXPECT_EQ(decode_call(bytes, out), CallFault::none);
    EXPECT_EQ(out.size, bytes.size());
}

TEST(CallHeader, FaultsByKind) {
    CallHeader out;
    EXPECT_EQ(decode_call(words({9, 1, 0, 0, 0, 0}), out), CallFault::drop);  // a reply
    EXPECT_EQ(out.xid, 9u);
    EXPECT_EQ(decode_call(words({9, 2, 2, 0, 0, 0}), out), CallFault::drop);
    EXPECT_EQ(decode_call(words({1, 0, 3}), out), CallFault::rpc_mismatch);
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 6, 0, 0, 0}), out), CallFault::too_weak);
    EXPECT_EQ(decode_call(words({1, 0, 2, 3, 4, 5, 2, 0, 0, 0}), out), CallFault::rejected_cred);
}

TEST(CallHeader, RandomBytesNeverReadBehindTheEnd) {
    Prng prng(4);
    const AuthSys sys = some_sys(5);
    const std::vector<std::byte> good = call_bytes(&sys);
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::byte> bytes(
            good.begin(), good.begin() + static_cast<std::ptrdiff_t>(prng.below(good.size() + 1)));
        for (int i = 0; i < 3 && !bytes.empty(); ++i) {
            bytes[prng.below(bytes.size())] = static_cast<std::byte>(prng.next());
        }
        CallHeader out;
        if (decode_call(bytes, out) == CallFault::none) {
            EXPECT_LE(out.size, bytes.size());
            EXPECT_LE(out.sys.group_count, kAuthSysGroupsMax);
        }
    }
}

TEST(ReplyHeader, RoundTripOfEveryKind) {
    std::vector<ReplyHeader> headers(9);
    for (std::uint32_t i = 0; i < 6; ++i)
        headers[i].accept = AcceptStat{i};
    headers[2].low = 2;
    headers[2].high = 4;
    headers[6].accepted = headers[7].accepted = headers[8].accepted = false;
    headers[6].low = headers[6].high = 2;
    headers[7].reject = headers[8].reject = RejectStat::auth_error;
    headers[7].auth = AuthStat::bad_cred;
    headers[8].auth = AuthStat::too_weak;
    for (const ReplyHeader& header : headers) {
        std::vector<std::byte> bytes(kReplyHeaderMax);
        Result<std::uint32_t> size = encode_reply(bytes, header);
        ASSERT_TRUE(size);
        bytes.resize(*size);
        ReplyHeader out;
        ASSERT_TRUE(decode_reply(bytes, out));
        EXPECT_EQ(out.accepted, header.accepted);
        if (header.accepted) {
            EXPECT_EQ(out.accept, header.accept);
        } else {
            EXPECT_EQ(out.reject, header.reject);
            EXPECT_EQ(out.auth, header.auth);
        }
        EXPECT_EQ(out.low, header.low);
        EXPECT_EQ(out.high, header.high);
        EXPECT_EQ(out.size, bytes.size());
        for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
            const std::vector<std::byte> prefix(bytes.begin(),
                                                bytes.begin() + static_cast<std::ptrdiff_t>(cut));
            EXPECT_FALSE(decode_reply(prefix, out)) << cut;
        }
    }
}

// A reply may carry a verifier of any allowed length: where its results begin follows from it.
TEST(B36, ReplyWithAVerifierBeginsBehindIt) {
    ReplyHeader out;
    ASSERT_TRUE(decode_reply(words({5, 1, 0, 2, 12, 1, 2, 3, 0, 99}), out));
    EXPECT_EQ(out.size, 36u);
    ASSERT_TRUE(decode_reply(words({5, 1, 0, 0, 0, 0, 99}), out));
    EXPECT_EQ(out.size, 24u);
}

TEST(ReplyHeader, BadOnesAreBadMessages) {
    ReplyHeader out;
    EXPECT_FALSE(decode_reply(words({5, 0, 0, 0, 0, 0}), out));  // a call
    EXPECT_FALSE(decode_reply(words({5, 1, 2, 0, 0, 0}), out));  // neither accepted nor denied
    EXPECT_FALSE(decode_reply(words({5, 1, 0, 0, 0, 6}), out));  // unknown accept_stat
    EXPECT_FALSE(decode_reply(words({5, 1, 1, 2, 0}), out));     // unknown reject_stat
    EXPECT_FALSE(decode_reply(words({5, 1, 0, 0, 0xFFFFFFFF, 0}), out));  // verifier
}

}  // namespace
}  // namespace nfsrdma::sunrpc
