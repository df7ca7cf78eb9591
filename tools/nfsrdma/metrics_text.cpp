#include "tools/nfsrdma/metrics_text.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::string_view kPrefix = "nfsrdmad_";
constexpr std::string_view kConnection = "nfsrdmad_connection_";

// `"..."` with \\, \" and \n; false when it does not end.
bool take_quoted(std::string_view& rest, std::string& out) {
    if (rest.empty() || rest.front() != '"') return false;
    for (std::size_t i = 1; i < rest.size(); ++i) {
        if (rest[i] == '"') {
            rest.remove_prefix(i + 1);
            return true;
        }
        if (rest[i] != '\\') {
            out.push_back(rest[i]);
            continue;
        }
        if (++i == rest.size()) return false;
        out.push_back(rest[i] == 'n' ? '\n' : rest[i]);
    }
    return false;
}

bool take_labels(std::string_view& rest, Sample& sample) {
    if (rest.empty() || rest.front() != '{') return true;
    rest.remove_prefix(1);
    while (!rest.empty() && rest.front() != '}') {
        const std::size_t equals = rest.find('=');
        if (equals == rest.npos) return false;
        const std::string key(rest.substr(0, equals));
        rest.remove_prefix(equals + 1);
        std::string value;
        if (!take_quoted(rest, value)) return false;
        sample.labels[key] = std::move(value);
        if (!rest.empty() && rest.front() == ',') rest.remove_prefix(1);
    }
    if (rest.empty()) return false;
    rest.remove_prefix(1);
    return true;
}

bool parse_line(std::string_view line, Sample& sample) {
    if (line.empty() || line.front() == '#') return false;
    const std::size_t end = line.find_first_of("{ ");
    if (end == line.npos || end == 0) return false;
    sample.name = line.substr(0, end);
    line.remove_prefix(end);
    if (!take_labels(line, sample)) return false;
    if (line.empty() || line.front() != ' ') return false;
    const std::string number(line.substr(1));
    char* stop = nullptr;
    sample.value = std::strtod(number.c_str(), &stop);
    return stop != number.c_str();
}

std::string seconds_text(double seconds) {
    char text[32];
    if (!std::isfinite(seconds)) return ">8 s";
    if (seconds < 1e-3) {
        (void)std::snprintf(text, sizeof text, "%.0f us", seconds * 1e6);
    } else if (seconds < 1) {
        (void)std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
    } else {
        (void)std::snprintf(text, sizeof text, "%.1f s", seconds);
    }
    return text;
}

std::string bytes_text(double bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
        bytes /= 1024;
        ++unit;
    }
    char text[32];
    (void)std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
    return text;
}

// A peer's own values: bounded, and whole.
std::string count_text(double value) {
    char text[32];
    (void)std::snprintf(text, sizeof text, "%.0f", std::clamp(value, 0.0, 1e18));
    return text;
}

using Values = std::map<std::string, double>;

// By peer: the values by their names without prefix and suffix.
std::map<std::string, Values> connections_of(const std::vector<Sample>& samples) {
    std::map<std::string, Values> out;
    for (const Sample& sample : samples) {
        if (sample.name.rfind(kConnection, 0) != 0) continue;
        std::string name = sample.name.substr(kConnection.size());
        if (name.ends_with("_total")) name.resize(name.size() - 6);
        out[sample.label("peer")][name] = sample.value;
    }
    return out;
}

Values totals_of(const std::vector<Sample>& samples) {
    Values out;
    for (const Sample& sample : samples) {
        if (sample.name.rfind(kPrefix, 0) == 0 && sample.labels.empty())
            out[sample.name.substr(kPrefix.size())] = sample.value;
    }
    return out;
}

// One line of a table: the first column to the left, the others to the right.
void append(std::string& out, const std::vector<std::string>& cells) {
    constexpr std::size_t kFirst = 22, kOther = 12;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::size_t width = i == 0 ? kFirst : kOther;
        const std::string fill(width - std::min(width, cells[i].size()), ' ');
        out += i == 0 ? cells[i] + fill : fill + cells[i];
    }
    out += '\n';
}

std::string json_text(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out.push_back('\\');
        if (static_cast<unsigned char>(c) < 0x20) continue;
        out.push_back(c);
    }
    return out + '"';
}

std::string json_number(double value) {
    char text[40];
    if (!std::isfinite(value)) return "null";
    (void)std::snprintf(text, sizeof text, "%.9g", value);
    if (value == std::floor(value) && std::abs(value) < 1e15)
        (void)std::snprintf(text, sizeof text, "%.0f", value);
    return text;
}

std::string json_object(const Values& values) {
    std::string out = "{";
    for (const auto& [name, value] : values)
        out += (out.size() > 1 ? "," : "") + json_text(name) + ":" + json_number(value);
    return out + '}';
}

}  // namespace

const std::string& Sample::label(const std::string& key) const {
    static const std::string none;
    const auto at = labels.find(key);
    return at == labels.end() ? none : at->second;
}

std::vector<Sample> parse_metrics(std::string_view text) {
    std::vector<Sample> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        Sample sample;
        if (parse_line(text.substr(0, end), sample)) out.push_back(std::move(sample));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

double ProcedureRow::quantile(double part) const {
    for (const auto& [bound, count] : buckets) {
        if (count >= part * calls) return bound;
    }
    return std::numeric_limits<double>::infinity();
}

std::vector<ProcedureRow> procedures_of(const std::vector<Sample>& samples) {
    std::map<std::pair<std::string, std::string>, ProcedureRow> rows;
    for (const Sample& sample : samples) {
        if (sample.name.rfind("nfsrdmad_procedure_", 0) != 0) continue;
        ProcedureRow& row = rows[{sample.label("program"), sample.label("procedure")}];
        row.program = sample.label("program");
        row.procedure = sample.label("procedure");
        const std::string what = sample.name.substr(19);
        if (what == "calls_total") row.calls = sample.value;
        if (what == "errors_total") row.errors = sample.value;
        if (what == "received_bytes_total") row.bytes_in = sample.value;
        if (what == "sent_bytes_total") row.bytes_out = sample.value;
        if (what == "latency_seconds_sum") row.seconds = sample.value;
        if (what == "latency_seconds_bucket") {
            row.buckets.emplace_back(std::strtod(sample.label("le").c_str(), nullptr),
                                     sample.value);
        }
    }
    std::vector<ProcedureRow> out;
    for (auto& [name, row] : rows) {
        if (row.calls <= 0) continue;
        std::sort(row.buckets.begin(), row.buckets.end());
        out.push_back(std::move(row));
    }
    return out;
}

std::string stats_for_people(const std::vector<Sample>& samples) {
    std::string out;
    append(out, {"PROCEDURE", "CALLS", "ERRORS", "RECEIVED", "SENT", "MEAN", "50 %", "99 %"});
    for (const ProcedureRow& row : procedures_of(samples)) {
        append(out, {for_stdout(row.program + " " + row.procedure), count_text(row.calls),
                     count_text(row.errors), bytes_text(row.bytes_in), bytes_text(row.bytes_out),
                     seconds_text(row.mean()), seconds_text(row.quantile(0.5)),
                     seconds_text(row.quantile(0.99))});
    }
    const auto connections = connections_of(samples);
    if (!connections.empty()) {
        out += '\n';
        append(out,
               {"CONNECTION", "CALLS", "CREDITS", "PULLED", "PUSHED", "RNR", "WAITS", "MEMORY"});
    }
    for (auto [peer, values] : connections) {
        append(out, {for_stdout(peer), count_text(values["calls"]), count_text(values["credits"]),
                     bytes_text(values["pulled_bytes"]), bytes_text(values["pushed_bytes"]),
                     count_text(values["rnr_naks_received"] + values["rnr_naks_sent"]),
                     count_text(values["send_queue_waits"]), bytes_text(values["memory_bytes"])});
    }
    out += '\n';
    for (const auto& [name, value] : totals_of(samples)) {
        if (value == 0) continue;
        out += for_stdout(name) + ": " + count_text(value) + "\n";
    }
    return out;
}

std::string stats_as_json(const std::vector<Sample>& samples) {
    std::string out = "{\"procedures\":{";
    bool first = true;
    for (const ProcedureRow& row : procedures_of(samples)) {
        out += (first ? "" : ",") + json_text(row.program + "." + row.procedure) + ":" +
               json_object({{"calls", row.calls},
                            {"errors", row.errors},
                            {"received_bytes", row.bytes_in},
                            {"sent_bytes", row.bytes_out},
                            {"mean_seconds", row.mean()},
                            {"p50_seconds", row.quantile(0.5)},
                            {"p99_seconds", row.quantile(0.99)}});
        first = false;
    }
    out += "},\"connections\":{";
    first = true;
    for (const auto& [peer, values] : connections_of(samples)) {
        out += (first ? "" : ",") + json_text(peer) + ":" + json_object(values);
        first = false;
    }
    return out + "},\"totals\":" + json_object(totals_of(samples)) + "}\n";
}

}  // namespace nfsrdma::tool
