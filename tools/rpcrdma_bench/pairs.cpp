#include "tools/rpcrdma_bench/pairs.hpp"

#include <algorithm>

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
    ratio.ok = true;
    return ratio;
}

}  // namespace nfsrdma::bench
