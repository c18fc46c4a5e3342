// Samples and tokens a second, for people.
#pragma once

#include <string>

namespace panpipe {

// Four digits, never an exponent: "0.0214", "11.2", "1,168"; beyond, whole numbers: "11,680".
std::string rate_text(double per_second);

// "8.25 samples/s, 8,448 tokens/s, MFU 45.1 %": what is known of a step. A sample has so many tokens; 0 = it is no text.
std::string rates_text(double samples_per_s, int tokens_per_sample, double mfu);

}  // namespace panpipe
