#include "verbs/softroce/fault_spec.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/clock.hpp"

namespace nfsrdma::verbs::softroce {

const char* const kFaultsHelp =
    "faults, apart by commas: loss=P, dup=P, reorder=P, corrupt=P (of packets, each way; P is "
    "0.1% or 500ppm), delay=T or T-T (T is 50us, 2ms or 3s), late=T (of a reordered packet, else "
    "50us), rate=N (bytes a second, each way), cmdrop=P, cmreject=P (of connection management), "
    "rnr=T/T (about each T no receives for T), qpkill=T (about each T a connection's queue pair "
    "fails), kill=T, stop=T/T (of the server's process)";

namespace {

constexpr const char* kChance = "a chance such as 1%, 0.1% or 500ppm";
constexpr const char* kTime = "a time such as 50us, 2ms or 3s";
constexpr const char* kTimes = "a time or two such as 2ms or 1ms-3ms";
constexpr const char* kSpell = "how often and how long, such as 1s/20ms";
constexpr const char* kRate = "bytes a second, such as 100000000";
constexpr std::uint64_t kTimeMaxNs = std::uint64_t{24} * 3600 * kNsPerSec;

// A number and what follows it. Not std::from_chars for double: clang 14's library has none.
struct Quantity {
    double value = 0;
    std::string_view unit;
};
std::optional<Quantity> quantity_of(std::string_view text) {
    Quantity out;
    double scale = 1;
    bool digits = false, point = false;
    std::size_t i = 0;
    for (; i < text.size() && i < 20; ++i) {
        if (text[i] == '.' && !point) {
            point = true;
        } else if (text[i] >= '0' && text[i] <= '9') {
            digits = true;
            out.value = out.value * 10 + (text[i] - '0');
            if (point) scale *= 10;
        } else {
            break;
        }
    }
    if (!digits) return std::nullopt;
    out.value /= scale;
    out.unit = text.substr(i);
    return out;
}

bool read_chance(std::string_view text, std::uint32_t& ppm) {
    const auto quantity = quantity_of(text);
    if (!quantity) return false;
    double value = quantity->value;
    if (quantity->unit == "%") {
        value *= 10'000;
    } else if (quantity->unit != "ppm") {
        return false;
    }
    if (value > 1'000'000) return false;
    ppm = static_cast<std::uint32_t>(std::lround(value));
    return true;
}

bool read_time(std::string_view text, std::uint64_t& ns) {
    const auto quantity = quantity_of(text);
    if (!quantity) return false;
    double unit = 0;
    if (quantity->unit == "us") {
        unit = static_cast<double>(kNsPerUs);
    } else if (quantity->unit == "ms") {
        unit = static_cast<double>(kNsPerMs);
    } else if (quantity->unit == "s") {
        unit = static_cast<double>(kNsPerSec);
    } else {
        return false;
    }
    const double value = quantity->value * unit;
    if (value > static_cast<double>(kTimeMaxNs)) return false;
    ns = static_cast<std::uint64_t>(std::llround(value));
    return ns > 0;
}

bool read_times(std::string_view text, std::uint64_t& low, std::uint64_t& high) {
    const std::size_t dash = text.find('-');
    if (!read_time(text.substr(0, dash), low)) return false;
    if (dash == std::string_view::npos) {
        high = low;
        return true;
    }
    return read_time(text.substr(dash + 1), high) && low <= high;
}

bool read_spell(std::string_view text, Spell& spell) {
    const std::size_t slash = text.find('/');
    return slash != std::string_view::npos && read_time(text.substr(0, slash), spell.every_ns) &&
           read_time(text.substr(slash + 1), spell.for_ns) && spell.for_ns <= spell.every_ns;
}

bool read_rate(std::string_view text, std::uint64_t& rate) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, rate);
    return error == std::errc{} && at == end && rate > 0;
}

// What `name` wants; nullptr: there is no such fault. `good` says whether `value` is that.
const char* read_fault(FaultSpec& spec, std::string_view name, std::string_view value, bool& good) {
    struct Chance {
        std::string_view name;
        std::uint32_t& ppm;
    };
    const std::array<Chance, 6> chances = {{{"loss", spec.link.loss_ppm},
                                            {"dup", spec.link.dup_ppm},
                                            {"reorder", spec.link.reorder_ppm},
                                            {"corrupt", spec.link.corrupt_ppm},
                                            {"cmdrop", spec.cm_drop_ppm},
                                            {"cmreject", spec.cm_reject_ppm}}};
    for (const Chance& chance : chances) {
        if (name != chance.name) continue;
        good = read_chance(value, chance.ppm);
        return kChance;
    }
    if (name == "delay") {
        good = read_times(value, spec.link.delay_ns_min, spec.link.delay_ns_max);
        return kTimes;
    }
    if (name == "rate") {
        good = read_rate(value, spec.link.bytes_per_sec);
        return kRate;
    }
    if (name == "rnr" || name == "stop") {
        good = read_spell(value, name == "rnr" ? spec.rnr : spec.server_stop);
        return kSpell;
    }
    if (name == "late" || name == "qpkill" || name == "kill") {
        good = read_time(value, name == "late"     ? spec.link.reorder_ns
                                : name == "qpkill" ? spec.qp_kill_ns
                                                   : spec.server_kill_ns);
        return kTime;
    }
    return nullptr;
}

}  // namespace

std::optional<FaultSpec> parse_faults(std::string_view text, std::string& why) {
    FaultSpec spec;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        const std::string_view part = text.substr(0, comma);
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
        const std::size_t equals = part.find('=');
        const std::string_view name = part.substr(0, equals);
        const std::string_view value =
            equals == std::string_view::npos ? std::string_view{} : part.substr(equals + 1);
        bool good = false;
        const char* const wanted = read_fault(spec, name, value, good);
        if (wanted == nullptr) {
            why = "no such fault: '" + std::string(name) + "'; " + kFaultsHelp;
            return std::nullopt;
        }
        if (!good) {
            why = "'" + std::string(part) + "': " + std::string(name) + "= wants " + wanted;
            return std::nullopt;
        }
    }
    return spec;
}

// Drawn in a fixed order, so that a seed means the same for as long as the faults are the same.
PacketFate FaultDice::draw(const LinkFaults& faults) noexcept {
    PacketFate fate;
    fate.lost = prng_.chance_ppm(faults.loss_ppm);
    if (fate.lost) return fate;
    fate.delay_ns = prng_.between(faults.delay_ns_min, faults.delay_ns_max);
    fate.duplicated = prng_.chance_ppm(faults.dup_ppm);
    if (fate.duplicated) fate.dup_delay_ns = prng_.below(faults.reorder_ns + 1);
    fate.corrupted = prng_.chance_ppm(faults.corrupt_ppm);
    if (fate.corrupted) fate.corrupt_draw = prng_.next();
    fate.late = prng_.chance_ppm(faults.reorder_ppm);
    return fate;
}

std::uint64_t FaultDice::after(std::uint64_t now_ns, std::uint64_t every_ns) noexcept {
    if (every_ns == 0) return std::numeric_limits<std::uint64_t>::max();
    return now_ns + prng_.between(every_ns / 2, every_ns / 2 + every_ns);
}

}  // namespace nfsrdma::verbs::softroce
