// Samples and tokens per second, for people.
#pragma once

#include <string>

namespace panpipe {

// Four significant digits, never an exponent: "0.0214", "11.2", "1,168". Larger rates are whole numbers: "11,680".
std::string rate_text(double per_second);

// The known rates of a step: "8.25 samples/s, 8,448 tokens/s, MFU 45.1 %". `tokens_per_sample` is 0 when samples are not text.
std::string rates_text(double samples_per_s, double tokens_per_sample, double mfu);

}  // namespace panpipe
