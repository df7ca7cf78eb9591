// Every procedure of examples/tirpc with every kind of argument, over the transport that it is
// told:
//   nfsrdma_tirpc_example [OPTION...] tcp|rdma HOST PORT [STEP]
// One line for each call with what came back, and a digest of it all: the same over every
// transport. Each result is looked at as well. Every STEPth size around the inline limits is tried;
// 1 by default.
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "depot_common.h"

namespace {

constexpr std::size_t kStringMax = 9000;  // RPC_MAXDATASIZE of rpc/rpc_com.h

int failures = 0;
u_quad_t first_number = 0;                  // of the first item that was put
std::uint64_t all = 14695981039346656037u;  // FNV-1a

std::uint64_t digest(std::uint64_t sum, const void* data, std::size_t bytes) {
    const auto* const at = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

char* as_chars(void* at) {
    return static_cast<char*>(at);
}
template <class T>
void free_result(CLIENT* client, bool_t (*routine)(XDR*, T*), T* result) {
    clnt_freeres(client, std::bit_cast<xdrproc_t>(routine), as_chars(result));
}

void expect(bool good, const char* what, std::size_t bytes) {
    if (good) return;
    std::fprintf(stderr, "FAILED: %s of %zu bytes\n", what, bytes);
    ++failures;
}

// One call's line.
void tell(CLIENT* client, const char* what, std::size_t bytes, std::uint64_t sum) {
    rpc_err error{};
    clnt_geterr(client, &error);
    std::string line = std::string(what) + ' ' + std::to_string(bytes) + ": " +
                       clnt_sperrno(error.re_status) + ' ' + std::to_string(sum) + '\n';
    all = digest(all, line.data(), line.size());
    std::fputs(line.c_str(), stdout);
}

// `failed` is a call without a result, which is no surprise when `expected` says it.
bool failed(CLIENT* client, const void* result, const char* what, std::size_t bytes,
            clnt_stat expected = RPC_SUCCESS) {
    if (result != nullptr) return false;
    rpc_err error{};
    clnt_geterr(client, &error);
    if (error.re_status != expected) {
        ++failures;
        std::fprintf(stderr, "FAILED: %s of %zu bytes: %s; %s\n", what, bytes,
                     clnt_sperror(client, what), rpcrdma_strerror());
    }
    tell(client, what, bytes, 0);
    return true;
}

std::vector<char> pattern(std::size_t bytes) {
    std::vector<char> data(bytes + 1);  // a pointer for no bytes, too
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = static_cast<char>((i * 131 + bytes * 17 + (i >> 8)) & 0xFF);
    return data;
}

std::uint64_t digest_of(std::uint64_t sum, const depot_about& about) {
    sum = digest(sum, about.name, std::strlen(about.name));
    const u_quad_t number = about.number - first_number;
    sum = digest(sum, &number, sizeof number);
    sum = digest(sum, &about.moment, sizeof about.moment);
    sum = digest(sum, &about.weight, sizeof about.weight);
    sum = digest(sum, &about.fragile, sizeof about.fragile);
    sum = digest(sum, about.mark, sizeof about.mark);
    return digest(sum, about.tags.tags_val, about.tags.tags_len * sizeof(int));
}

// Of the name of an item with so much data: of all lengths.
std::size_t name_bytes(std::size_t bytes) {
    return bytes % (DEPOT_NAME_MAX + 1);
}

void put(CLIENT* client, std::size_t bytes) {
    std::vector<char> data = pattern(bytes);
    std::vector<int> tags;
    for (std::size_t i = 0; i < bytes % (DEPOT_TAGS_MAX + 1); ++i)
        tags.push_back(static_cast<int>(i) - 7);
    std::string name(name_bytes(bytes), 'n');
    depot_item item{};
    item.about.name = name.data();
    item.about.moment = -static_cast<quad_t>(bytes) * 1000000007;
    item.about.weight = static_cast<double>(bytes) / 7;
    item.about.fragile = bytes % 2 != 0;
    std::memcpy(item.about.mark, "\0mark\xFF", 7);
    item.about.tags = {static_cast<u_int>(tags.size()), tags.data()};
    item.data = {static_cast<u_int>(bytes), data.data()};
    for (std::size_t i = 0; i < bytes; ++i)
        item.guard += static_cast<unsigned char>(data[i]);
    const depot_put_res* const put_result = depot_put_1(&item, client);
    if (failed(client, put_result, "put", bytes)) return;
    expect(put_result->status == DEPOT_OK, "put", bytes);
    // The depot numbers its items, and has had others.
    const u_quad_t number = put_result->depot_put_res_u.number;
    if (first_number == 0) first_number = number;
    tell(client, "put", bytes, number - first_number);

    char* key = name.data();
    depot_get_res* const got = depot_get_1(&key, client);
    if (failed(client, got, "get", bytes)) return;
    if (got->status == DEPOT_OK) {
        const depot_item& back = got->depot_get_res_u.item;
        expect(back.data.data_len == bytes && back.guard == item.guard, "get", bytes);
        expect(bytes == 0 || std::memcmp(back.data.data_val, data.data(), bytes) == 0, "get",
               bytes);
        tell(client, "get", bytes,
             digest(digest_of(all, back.about), back.data.data_val, back.data.data_len));
    } else {
        expect(false, "get", bytes);
    }
    free_result(client, &xdr_depot_get_res, got);
}

void reverse(CLIENT* client, std::size_t bytes) {
    std::vector<char> data = pattern(bytes);
    depot_data argument{static_cast<u_int>(bytes), data.data()};
    depot_data* const back = depot_reverse_1(&argument, client);
    const clnt_stat expected = bytes > DEPOT_DATA_MAX ? RPC_CANTENCODEARGS : RPC_SUCCESS;
    if (failed(client, back, "reverse", bytes, expected)) return;
    bool same = back->depot_data_len == bytes;
    for (std::size_t i = 0; same && i < bytes; ++i)
        same = back->depot_data_val[i] == data[bytes - 1 - i];
    expect(same, "reverse", bytes);
    tell(client, "reverse", bytes, digest(all, back->depot_data_val, back->depot_data_len));
    free_result(client, &xdr_depot_data, back);
}

u_int list(CLIENT* client, u_int most) {
    depot_list_res* const result = depot_list_1(&most, client);
    if (failed(client, result, "list", most)) return 0;
    std::uint64_t sum = all;
    u_int count = 0;
    for (const depot_entry* at = result->first; at != nullptr; at = at->next) {
        sum = digest(digest_of(sum, at->about), &at->bytes, sizeof at->bytes);
        ++count;
    }
    expect(count <= most && (result->complete != FALSE || count == most), "list", most);
    tell(client, "list", most, sum + count);
    free_result(client, &xdr_depot_list_res, result);
    return count;
}

void remove(CLIENT* client, std::size_t length) {
    std::string name(length, 'n');
    char* key = name.data();
    const bool_t* const removed = depot_remove_1(&key, client);
    // Strings of no .x file's bound have that of xdr_wrapstring.
    const clnt_stat expected = length > kStringMax ? RPC_CANTENCODEARGS : RPC_SUCCESS;
    if (!failed(client, removed, "remove", length, expected))
        tell(client, "remove", length, static_cast<std::uint64_t>(*removed));
}

void run(CLIENT* client, std::size_t step) {
    char nothing = 0;
    if (!failed(client, depot_null_1(&nothing, client), "null", 0)) tell(client, "null", 0, 0);
    char** const version = depot_version_1(&nothing, client);
    if (!failed(client, version, "version", 0)) {
        tell(client, "version", 0, digest(all, *version, std::strlen(*version)));
        free_result(client, &xdr_wrapstring, version);
    }
    list(client, 10);  // of nothing
    std::vector<std::size_t> sizes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 1023, 1024, 1025};
    for (const std::size_t middle : {2048u, 4000u, 4096u}) {
        for (std::size_t size = middle - 64; size <= middle + 64; size += step)
            sizes.push_back(size);
    }
    for (const std::size_t middle : {8192u, 65536u, 1u << 20}) {
        for (std::size_t size = middle - 2; size <= middle + 2; ++size)
            sizes.push_back(size);
    }
    sizes.insert(sizes.end(), {DEPOT_DATA_MAX - 1, DEPOT_DATA_MAX});
    for (const std::size_t size : sizes) {
        reverse(client, size);
        put(client, size);
    }
    reverse(client, DEPOT_DATA_MAX + 1);
    // A list that is longer than what goes within a message.
    const u_int there = list(client, DEPOT_ITEMS_MAX);
    expect(there > 10, "list", there);
    list(client, 3);
    list(client, 0);
    for (const std::size_t length : {std::size_t{1000}, kStringMax, kStringMax + 1})
        remove(client, length);  // longer than any
    std::set<std::size_t> lengths = {0, DEPOT_NAME_MAX};
    for (const std::size_t size : sizes)
        lengths.insert(name_bytes(size));
    for (const std::size_t length : lengths)
        remove(client, length);
    expect(list(client, 10) == 0, "list", 0);
    char* gone = &nothing;
    const depot_get_res* const got = depot_get_1(&gone, client);
    if (!failed(client, got, "get", 0)) {
        expect(got->status == DEPOT_NOT_FOUND, "get", 0);
        tell(client, "get", 0, static_cast<std::uint64_t>(got->status));
    }
}

}  // namespace

int main(int argc, char** argv) {
    depot_options options{};
    const int used = depot_parse(argc, argv, &options, "tcp|rdma HOST PORT [STEP]");
    if (argc - used < 3 || argc - used > 4) return 2;
    CLIENT* const client = depot_connect(argv[used], argv[used + 1], argv[used + 2], &options);
    if (client == nullptr) {
        std::fprintf(stderr, "%s; %s\n", clnt_spcreateerror("connect"), rpcrdma_strerror());
        return 1;
    }
    timeval patience{60, 0};
    clnt_control(client, CLSET_TIMEOUT, as_chars(&patience));
    run(client, argc - used == 4 ? std::strtoul(argv[used + 3], nullptr, 10) : 1);
    std::printf("all: %016" PRIx64 "\n", all);
    // What went how is not the same over every transport.
    rpcrdma_stats stats{};
    stats.size = sizeof stats;
    if (clnt_control(client, CLRDMA_GET_STATS, as_chars(&stats))) {
        std::fprintf(stderr,
                     "calls %" PRIu64 " replies %" PRIu64 " inline %" PRIu64 " read_chunk %" PRIu64
                     " long %" PRIu64 " write_chunk %" PRIu64 " reply_chunk %" PRIu64 "\n",
                     stats.calls, stats.replies, stats.inline_calls, stats.read_chunk_calls,
                     stats.long_calls, stats.write_chunk_calls, stats.reply_chunk_calls);
    }
    clnt_destroy(client);
    return failures == 0 ? 0 : 1;
}
