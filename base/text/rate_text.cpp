#include "base/text/rate_text.hpp"

#include <fmt/format.h>

namespace panpipe {

std::string rate_text(double per_second) {
  if (!(per_second >= 999.95) || per_second >= 1e15) return fmt::format("{:.4g}", per_second);
  std::string digits = fmt::format("{:.0f}", per_second);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string rates_text(double samples_per_s, double tokens_per_sample, double mfu) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (samples_per_s > 0) add(rate_text(samples_per_s) + " samples/s");
  if (samples_per_s > 0 && tokens_per_sample > 0) add(rate_text(samples_per_s * tokens_per_sample) + " tokens/s");
  if (mfu > 0) add(fmt::format("MFU {:.1f} %", 100 * mfu));
  return text;
}

}  // namespace panpipe
