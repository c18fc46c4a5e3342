// Quantities as text: "25 GB/s", "24 GiB", "71 TFLOP/s", "5 us", "85 %".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"

namespace panpipe {

// The result of parsing: a value, or a sentence that explains the fault and shows the right spelling.
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string problem;  // empty when value is set; no place, no final period
};

// Every quantity needs its unit, except "0"; for a bare number the problem shows the right spelling. Only bandwidths accept
// `unlimited` (infinite). Non-finite numbers are problems. Negative ones are accepted here, because measured layers may save a
// negative number of bytes; the reader rejects them elsewhere. Numbers are decimal: digits, one point, an exponent; no octal, no
// hex, no "_", no "inf", no "nan".
Parsed<Duration> parse_duration(std::string_view text);    // s ms us ns ps min h d
Parsed<Bytes> parse_bytes(std::string_view text);          // B kB MB GB TB KiB MiB GiB TiB ; whole bytes (rounded)
Parsed<Bandwidth> parse_bandwidth(std::string_view text);  // B/s kB/s MB/s GB/s TB/s KiB/s MiB/s GiB/s Gb/s (bits) ; unlimited
Parsed<ComputeRate> parse_compute_rate(std::string_view text);  // FLOP/s GFLOP/s TFLOP/s PFLOP/s
Parsed<double> parse_fraction(std::string_view text);           // "85 %" -> 0.85
Parsed<double> parse_number(std::string_view text);             // dimensionless
Parsed<long long> parse_integer(std::string_view text);

// Scaled for people, three to four significant digits: "1.234 s", "12.3 ms", "22.4 GiB", "25 GB/s", "312 TFLOP/s".
std::string to_text(Duration value);
std::string to_text(Ticks value);
std::string to_text(Bytes value);
std::string to_text(Bandwidth value);
std::string to_text(ComputeRate value);
std::string to_text(Flops value);

// The shortest text that parses back to exactly this value: "24 GiB", "0.26 ms", "1950351360 B", "85 %".
std::string exact_text(Duration value);
std::string exact_text(Bytes value);
std::string exact_text(Bandwidth value);
std::string exact_text(ComputeRate value);
std::string exact_fraction_text(double value);

}  // namespace panpipe
