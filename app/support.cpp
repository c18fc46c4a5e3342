#include "app/support.hpp"

#include <optional>

#include "base/text/json_writer.hpp"

namespace panpipe::app {

std::string to_json(const Support& support, const Metrics& figures) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-support/1").field("step_time_s", figures.step_time_s);
  out.field("step_time_p10_s", figures.step_time_p10_s).field("step_time_p50_s", figures.step_time_p50_s);
  out.field("step_time_p90_s", figures.step_time_p90_s);
  write_evidence(out, figures.evidence);
  out.list("parts", JsonLayout::Lines);
  for (const SupportedPart& part : support.parts) {
    out.object().field("what", part.what).field("value", part.value).field("runs", part.runs).field("sources", part.sources);
    const bool compared = part.runs > 0;
    out.field("mean_error", compared ? std::optional(part.mean_error) : std::nullopt);
    out.field("worst_error", compared ? std::optional(part.worst_error) : std::nullopt).end();
  }
  out.end().list("devices", JsonLayout::Lines);
  for (const SupportedDevice& device : support.devices) {
    out.object(JsonLayout::Lines).field("device", device.device).field("calibration", device.calibration);
    out.list("numbers", JsonLayout::Lines);
    for (const SupportedNumber& number : device.numbers)
      out.object()
          .field("key", number.key)
          .field("value", number.value)
          .field("origin", name_of(number.origin))
          .field("source", number.source)
          .end();
    out.end().end();
  }
  return out.end().field("never_compared", support.never_compared).end().finish() + "\n";
}

}  // namespace panpipe::app
