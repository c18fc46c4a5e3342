// Any text is a result or an InputError; two results can be compared and shown, and no figure of the comparison is not finite.
#include "study/compare/compare.hpp"
#include "study/report/report.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/json_mutator.hpp"

namespace {

using namespace panpipe;

void check(const study::Comparison& comparison) {
  for (const study::ComparedMetric& metric : comparison.metrics) {
    fuzz::must_be_finite(metric.difference);
    fuzz::must_be_finite(metric.relative.value_or(0));
  }
  for (const study::ComparedClass& row : comparison.classes) {
    fuzz::must_be_finite(row.mean_a);
    fuzz::must_be_finite(row.mean_b);
    fuzz::must_be_finite(row.total_difference);
  }
  for (const study::ComparedWait& wait : comparison.waits) {
    fuzz::must_be_finite(wait.a);
    fuzz::must_be_finite(wait.b);
  }
  to_table(comparison);
  to_json(comparison);
}

}  // namespace

// Two documents parted by a zero byte; of one, its comparison with itself.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string rest = fuzz::text_of(data, size);
  const std::string first = fuzz::take_piece(rest, '\0');
  const std::string second = rest.empty() ? first : fuzz::take_piece(rest, '\0');
  fuzz::accepts([&] {
    const present::ResultDocument a = present::parse_result(first, "a.json");
    fuzz::accepts([&] { study::to_report_page({{a, "", ""}}); });
    const present::ResultDocument b = present::parse_result(second, "b.json");
    fuzz::accepts([&] { check(study::compare(a, b, {}, true)); });
    fuzz::accepts([&] { check(study::compare(a, b, {})); });
    fuzz::accepts([&] { study::to_report_page({{a, "", ""}, {b, "", ""}}); });
  });
  return 0;
}
