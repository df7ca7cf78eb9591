#pragma once
#include <functional>
#include <string>
#include <vector>

// Ratios measured side by side: two loads take turns on the same cores, the ratio is taken pair by
// pair.
namespace nfsrdma::bench {

// Runs a load for about `seconds` and returns its rate (larger is better) or its cost (smaller is
// better); what the pair compares is the caller's matter. A negative value is a failure.
using Load = std::function<double(double seconds)>;

struct Ratio {
    std::string name;
    double value = 0;  // the median over the pairs
    double low = 0, high = 0;
    double numerator = 0, denominator = 0;  // medians of each side
    std::string unit;                       // of both sides
    int pairs = 0;
    bool ok = false;
};

struct PairOptions {
    int pairs = 7;
    double seconds = 0.5;  // of each side of each pair
};

// numerator / denominator; which side goes first alternates. One short warm-up of each is not
// counted.
Ratio measure_pairs(const std::string& name, const std::string& unit, const Load& numerator,
                    const Load& denominator, const PairOptions& options);

// One line `NAME VALUE (LOW .. HIGH; NUMERATOR / DENOMINATOR UNIT)`, or one JSON object. False,
// with a line on standard error, for one that could not be measured.
bool print(const Ratio& ratio, bool json);

double median(std::vector<double> values);

}  // namespace nfsrdma::bench
