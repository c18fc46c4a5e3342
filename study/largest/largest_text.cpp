// The largest value that fits as a table and as a document.
#include <fmt/format.h>

#include <cmath>

#include "base/text/json_writer.hpp"
#include "base/text/memory_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/timeline/memory_room.hpp"
#include "study/largest/largest.hpp"

namespace panpipe::study {
namespace {

double number(Bytes bytes) { return static_cast<double>(bytes.base()); }

const char* noun(const LargestAnswer& answer) { return answer.of == LargestOf::Micro ? "microbatch" : "sequence"; }
const char* largest_word(const LargestAnswer& answer) { return answer.of == LargestOf::Micro ? "largest" : "longest"; }

std::string value_text(const LargestAnswer& answer, int value) {
  return fmt::format("{}{}", value, answer.of == LargestOf::Sequence ? " tokens" : "");
}

// "; 8 fits probably, 7 surely": values below the largest that have more room.
std::string margins_text(const LargestFit& fit) {
  const auto shown = [](int value) { return value > 0 ? std::to_string(value) : std::string("none"); };
  const int largest = fit.largest->value;
  std::string text;
  if (fit.probably && *fit.probably < largest) text = fmt::format("; {} fits probably", shown(*fit.probably));
  if (fit.surely && *fit.surely < largest)
    text += fmt::format("{}{} {}surely", text.empty() ? "; " : ", ", shown(*fit.surely), text.empty() ? "fits " : "");
  return text;
}

// Why the value behind the largest is none.
std::string end_text(const LargestAnswer& answer, const LargestFit& fit) {
  if (!fit.next)
    return answer.keeps_batch && answer.of == LargestOf::Micro ? "a step has no more samples" : "nothing larger was tried";
  if (!fit.next->refused.empty()) return fit.next->refused;
  const auto part = fit.ends_by();
  if (!part) return "";
  return fmt::format("{}, {}{}", name_of(part->use), memory_text(number(part->bytes)), fit.largest ? " more" : "");
}

std::string headline(const LargestAnswer& answer) {
  if (answer.devices.size() != 1) return fmt::format("the {} {} that fits", largest_word(answer), noun(answer));
  const LargestFit& fit = answer.devices.front();
  if (!fit.largest) return fmt::format("no {} fits", noun(answer));
  return fmt::format("the {} {} is {}: it fits {}{}", largest_word(answer), noun(answer), value_text(answer, fit.largest->value),
                     fits_how(fit.largest->share()), margins_text(fit));
}

std::string stated_text(const TriedValue& stated) {
  const bool known = stated.refused.empty();
  return fmt::format("{}, {}", stated.value, known ? std::string(fits_how(stated.share())) : "not possible");
}

std::string kept_line(const LargestAnswer& answer) {
  std::string text = answer.keeps_batch ? "  kept: the samples of a step"
                     : answer.of == LargestOf::Micro
                         ? fmt::format("  kept: the {} microbatches of a step, so that its samples grow", answer.microbatches)
                         : "  kept: microbatch and microbatches";
  if (answer.of == LargestOf::Sequence)
    text += fmt::format("; sequences are multiples of {} tokens", answer.ladder.step());
  else if (answer.keeps_batch)
    text += ", which microbatches divide";
  return text + (answer.searched ? "; plans are searched for each value\n" : "; schedule and cuts are made for each value\n");
}

// The plan of each device, where plans were searched.
std::string plan_lines(const LargestAnswer& answer) {
  std::string lines;
  for (const LargestFit& fit : answer.devices)
    if (fit.largest && !fit.largest->plan.empty())
      lines += fmt::format("  {} with {}: {}\n", fit.device, value_text(answer, fit.largest->value), fit.largest->plan);
  return lines;
}

void write_value(JsonWriter& out, const char* name, const std::optional<TriedValue>& tried) {
  if (!tried) {
    out.field(name, nullptr);
    return;
  }
  out.object(name).field("value", tried->value);
  if (!tried->refused.empty()) {
    out.field("reason", tried->refused).end();
    return;
  }
  out.field("samples", tried->samples).field("need_bytes", tried->need.base()).field("limit_bytes", tried->limit.base());
  out.field("fits_how", fits_how(tried->share()));
  if (!tried->plan.empty()) out.field("plan", tried->plan);
  out.object("parts");
  for (const MemoryPart& part : tried->parts) out.field(name_of(part.use), part.bytes.base());
  out.end().end();
}

}  // namespace

std::string to_table(const LargestAnswer& answer, const TextStyle& style) {
  const bool margins = !answer.searched, own = answer.stated > 0;
  std::vector<TextColumn> columns = {"<device"};
  if (own) columns.emplace_back("stated");
  if (margins) columns.emplace_back("surely");
  if (margins) columns.emplace_back("probably");
  for (const char* name : {"fits", "need", "of usable", "next", "needs", "<ends by"}) columns.emplace_back(name);
  TextTable table(std::move(columns));
  for (const LargestFit& fit : answer.devices) {
    const auto shown = [](const std::optional<int>& value) { return value && *value > 0 ? std::to_string(*value) : "-"; };
    std::vector<std::string> row = {fit.device};
    if (own) row.push_back(fit.stated ? stated_text(*fit.stated) : "-");
    if (margins) row.push_back(shown(fit.surely));
    if (margins) row.push_back(shown(fit.probably));
    const bool known = fit.next && fit.next->refused.empty();
    row.push_back(fit.largest ? std::to_string(fit.largest->value) : "-");
    row.push_back(fit.largest ? memory_text(number(fit.largest->need)) : "-");
    row.push_back(fit.largest ? fmt::format("{:.0f} %", std::floor(100 * fit.largest->share())) : "-");
    row.push_back(fit.next ? std::to_string(fit.next->value) : "-");
    row.push_back(known ? memory_text(number(fit.next->need)) : "-");
    row.push_back(end_text(answer, fit));
    table.row(std::move(row));
  }
  return wrapped(style.paint(kBold, headline(answer)) + "\n" + table.text(style) + plan_lines(answer) + kept_line(answer),
                 style.width);
}

std::string to_json(const LargestAnswer& answer) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-largest/1").field("of", name_of(answer.of));
  out.field("searched", answer.searched).field("feasible", answer.any_fits());
  if (answer.stated > 0) out.field("stated", answer.stated);
  if (answer.ladder.step() > 0) out.field("multiples_of", answer.ladder.step());
  if (!answer.keeps_batch) out.field("microbatches", answer.microbatches);
  out.list("devices", JsonLayout::Lines);
  for (const LargestFit& fit : answer.devices) {
    out.object(JsonLayout::Lines).field("device", fit.device);
    if (fit.surely) out.field("surely", *fit.surely);
    if (fit.probably) out.field("probably", *fit.probably);
    out.field("fits", fit.largest ? fit.largest->value : 0);
    if (const auto part = fit.ends_by())
      out.object("ends_by").field("part", name_of(part->use)).field("bytes", part->bytes.base()).end();
    if (fit.stated) write_value(out, "stated", fit.stated);
    write_value(out, "largest", fit.largest);
    write_value(out, "next", fit.next);
    out.end();
  }
  return out.end().end().finish() + "\n";
}

}  // namespace panpipe::study
