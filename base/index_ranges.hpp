// Lists of devices, stages and the like in words: thousands of them are a few ranges.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// In ascending order, each once: "0, 8-15"; what repeats at equal distances as "0, 8 ... 56" or "0-7, 64-71 ... 448-455". At most
// `most` such pieces, then "and 34 more"; 0 = all. Empty: "none".
std::string ranges_text(std::vector<int> indices, std::size_t most = 0);

// Of 0 to count - 1, those that are not among `used`.
std::vector<int> unused_indices(const std::vector<int>& used, int count);

// "5 of 8 devices are not used: 3-7"; empty where all are.
std::string unused_devices_text(const std::vector<int>& unused, int devices);

}  // namespace panpipe
