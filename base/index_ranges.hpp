// Lists of devices, stages and the like as text: thousands of indices become a few ranges.
#pragma once

#include <string>
#include <vector>

namespace panpipe {

// Sorted, each index once: "0, 8-15". Regular repetitions are shortened to "0, 8 ... 56" or "0-7, 64-71 ... 448-455". After
// `most` such pieces follows "and 34 more"; 0 shows all. An empty list gives "none".
std::string ranges_text(std::vector<int> indices, std::size_t most = 0);

// The indices from 0 to count - 1 that `used` does not contain.
std::vector<int> unused_indices(const std::vector<int>& used, int count);

// "5 of 8 devices are not used: 3-7"; empty when all are used.
std::string unused_devices_text(const std::vector<int>& unused, int devices);

}  // namespace panpipe
