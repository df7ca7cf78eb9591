#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// Prometheus' text format, as far as `nfsrdma stats` reads it.
namespace nfsrdma::tool {

struct Sample {
    std::string name;
    std::map<std::string, std::string> labels;
    double value = 0;
    const std::string& label(const std::string& key) const;  // "" without
};

// Lines that are none are passed over.
std::vector<Sample> parse_metrics(std::string_view text);

struct ProcedureRow {
    std::string program, procedure;
    double calls = 0, errors = 0, bytes_in = 0, bytes_out = 0, seconds = 0;
    std::vector<std::pair<double, double>> buckets;  // upper bound in s, calls up to it
    double mean() const { return calls > 0 ? seconds / calls : 0; }
    // The bound of the bucket in which that part of the calls was done; infinite in the last.
    double quantile(double part) const;
};
// Those that were called.
std::vector<ProcedureRow> procedures_of(const std::vector<Sample>& samples);

// What the whole of the answer says, for people and as one line of JSON.
std::string stats_for_people(const std::vector<Sample>& samples);
std::string stats_as_json(const std::vector<Sample>& samples);

}  // namespace nfsrdma::tool
