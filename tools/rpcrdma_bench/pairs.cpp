#include "tools/rpcrdma_bench/pairs.hpp"

#include <algorithm>
#include <cstdio>

namespace nfsrdma::bench {

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Ratio measure_pairs(const std::string& name, const std::string& unit, const Load& numerator,
                    const Load& denominator, const PairOptions& options) {
    Ratio ratio{.name = name, .unit = unit};
    const double warm_up = std::min(0.2, options.seconds);
    if (numerator(warm_up) <= 0 || denominator(warm_up) <= 0) return ratio;
    std::vector<double> tops, bottoms, ratios;
    for (int pair = 0; pair < options.pairs; ++pair) {
        double top = 0, bottom = 0;
        if (pair % 2 == 0) {
            top = numerator(options.seconds);
            bottom = denominator(options.seconds);
        } else {
            bottom = denominator(options.seconds);
            top = numerator(options.seconds);
        }
        if (top <= 0 || bottom <= 0) return ratio;
        tops.push_back(top);
        bottoms.push_back(bottom);
        ratios.push_back(top / bottom);
    }
    ratio.value = median(ratios);
    ratio.low = *std::min_element(ratios.begin(), ratios.end());
    ratio.high = *std::max_element(ratios.begin(), ratios.end());
    ratio.numerator = median(tops);
    ratio.denominator = median(bottoms);
    ratio.pairs = options.pairs;
    ratio.ok = true;
    return ratio;
}

bool print(const Ratio& ratio, bool json) {
    if (!ratio.ok) {
        (void)std::fprintf(stderr, "rpcrdma-bench: %s could not be measured\n", ratio.name.c_str());
        return false;
    }
    if (json) {
        std::printf(
            "{\"name\":\"%s\",\"value\":%.4f,\"low\":%.4f,\"high\":%.4f,\"numerator\":%.6g,"
            "\"denominator\":%.6g,\"unit\":\"%s\",\"pairs\":%d}\n",
            ratio.name.c_str(), ratio.value, ratio.low, ratio.high, ratio.numerator,
            ratio.denominator, ratio.unit.c_str(), ratio.pairs);
    } else {
        std::printf("%s %.3f   (%.3f .. %.3f; %.4g / %.4g %s)\n", ratio.name.c_str(), ratio.value,
                    ratio.low, ratio.high, ratio.numerator, ratio.denominator, ratio.unit.c_str());
    }
    (void)std::fflush(stdout);
    return true;
}

}  // namespace nfsrdma::bench
