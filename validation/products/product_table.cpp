#include "validation/products/product_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/text/did_you_mean.hpp"
#include "base/text/json_writer.hpp"
#include "base/text/percent.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "costmodel/cost/compute.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "validation/error_sizes.hpp"
#include "validation/runs/calibration_choice.hpp"
#include "validation/runs/run_cluster.hpp"

namespace panpipe::validation {
namespace {

constexpr const char* kProductColumns[] = {"source", "where", "gpu",    "precision", "batch", "m",
                                           "n",      "k",     "tflops", "used",      "note"};

constexpr std::pair<const char*, std::int64_t ProductRow::*> kSizes[] = {
    {"batch", &ProductRow::batch}, {"m", &ProductRow::m}, {"n", &ProductRow::n}, {"k", &ProductRow::k}};
constexpr std::pair<const char*, std::string ProductRow::*> kTexts[] = {
    {"source", &ProductRow::source}, {"where", &ProductRow::where}, {"gpu", &ProductRow::gpu}, {"note", &ProductRow::note}};

// A problem, or none.
std::string set_whole(const std::string& text, std::int64_t& value) {
  const Parsed<double> parsed = parse_number(text);
  if (!parsed.value) return parsed.problem;
  if (*parsed.value < 1 || *parsed.value != std::floor(*parsed.value) || *parsed.value > 1e12)
    return "expected a whole number from 1 on";
  value = static_cast<std::int64_t>(*parsed.value);
  return "";
}

std::string set_cell(ProductRow& row, const std::string& column, const std::string& text) {
  for (const auto& [name, size] : kSizes)
    if (column == name) return set_whole(text, row.*size);
  for (const auto& [name, value] : kTexts)
    if (column == name) row.*value = text;
  if (column == "precision") {
    if (text != "fp32" && text != "tf32" && text != "bf16" && text != "fp16") return "expected fp32, tf32, bf16 or fp16";
    row.precision = text;
  }
  if (column == "used") {
    if (text != "yes" && text != "no") return "expected yes or no";
    row.used = text == "yes";
  }
  if (column == "tflops") {
    const Parsed<double> parsed = parse_number(text);
    if (!parsed.value) return parsed.problem;
    if (!(*parsed.value > 0)) return "expected a number above 0";
    row.tflops = *parsed.value;
  }
  return "";
}

// The costs of a device's products under each precision; made once per device and precision.
struct DeviceProducts {
  DeviceRates rates;
  std::string problem;
};

DeviceProducts device_products(const ProductRow& row, const CalibrationChoice& calibrations) {
  DeviceProducts device;
  RunRow run;
  run.gpu = row.gpu;
  run.gpus = 1;
  const RunCluster cluster = cluster_of(run, calibrations.of(row.gpu));
  device.problem = cluster.problem;
  if (!device.problem.empty()) return device;
  const std::string text = "panpipe: 1\ncluster: " + cluster.yaml +
                           "\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 1}\nprecision: " + row.precision + "\n";
  try {
    const Scenario scenario = parse_scenario(text, "product", data_directory());
    const DeviceType& type = scenario.cluster.types.front();
    device.rates = device_rates(type, calibration_for(type), scenario);
  } catch (const InputError& error) {
    device.problem = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  }
  return device;
}

// Of those that could be predicted. `used`: a calibration rests on some of them.
struct ProductErrors : ErrorSizes {
  bool used = false;
  double signed_worst = 0;
};

ProductErrors errors_of(const std::vector<const ProductPrediction*>& products) {
  ProductErrors errors;
  std::vector<double> each;
  for (const ProductPrediction* product : products) {
    const std::optional<double> error = product->error();
    if (!error) continue;
    errors.used = errors.used || product->row.used;
    each.push_back(*error);
  }
  static_cast<ErrorSizes&>(errors) = error_sizes(each);
  if (!each.empty()) errors.signed_worst = each[errors.worst_at];
  return errors;
}

using ProductGroups = std::map<std::tuple<std::string, std::string, std::string>, std::vector<const ProductPrediction*>>;

// By device, precision and source.
ProductGroups product_groups(const std::vector<ProductPrediction>& products) {
  ProductGroups groups;
  for (const ProductPrediction& product : products)
    groups[{product.row.gpu, product.row.precision, product.row.source}].push_back(&product);
  return groups;
}

std::string shape_text(const ProductRow& row) {
  const std::string shape = fmt::format("{} x {} x {}", row.m, row.n, row.k);
  return row.batch > 1 ? fmt::format("{} of {}", row.batch, shape) : shape;
}

}  // namespace

std::optional<double> ProductPrediction::error() const {
  if (!skipped.empty() || tflops <= 0) return std::nullopt;
  return row.tflops / tflops - 1;
}

bool holds_products(const CsvTable& table) { return table.place_of("tflops").has_value(); }

std::vector<ProductRow> read_products(const CsvTable& table) {
  const std::vector<std::string> known(std::begin(kProductColumns), std::end(kProductColumns));
  ReadLog log;
  for (const CsvCell& cell : table.heading)
    if (std::find(known.begin(), known.end(), cell.text) == known.end())
      log.add(diagnostic_at(
          table, cell, fmt::format("a table of products has no column '{}'{}", cell.text, suggestion_or_list(cell.text, known))));
  for (const char* needed : {"gpu", "m", "n", "k"})
    if (!table.place_of(needed))
      log.add(diagnostic_at(table, table.heading.front(), fmt::format("a table of products needs the column '{}'", needed)));
  log.throw_if_errors();
  std::vector<ProductRow> rows;
  for (const auto& cells : table.rows) {
    ProductRow& row = rows.emplace_back();
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string& column = table.heading[c].text;
      const bool needed = column == "gpu" || column == "m" || column == "n" || column == "k" || column == "tflops";
      if (cells[c].text.empty() && !needed) continue;
      const std::string problem = cells[c].text.empty() ? "this row has none" : set_cell(row, column, cells[c].text);
      if (!problem.empty()) log.add(diagnostic_at(table, cells[c], column + ": " + problem));
    }
  }
  log.throw_if_errors();
  return rows;
}

std::vector<ProductPrediction> predict_products(const std::vector<ProductRow>& rows,
                                                const std::vector<std::string>& calibrations) {
  const CalibrationChoice choice(calibrations);
  std::map<std::pair<std::string, std::string>, DeviceProducts> devices;
  std::vector<ProductPrediction> products;
  for (const ProductRow& row : rows) {
    const auto [device, is_new] = devices.try_emplace({row.gpu, row.precision});
    if (is_new) device->second = device_products(row, choice);
    ProductPrediction& product = products.emplace_back();
    product.row = row;
    product.skipped = device->second.problem;
    if (!product.skipped.empty()) continue;
    const Breakdown cost = gemm_cost({row.batch, row.m, row.n, row.k}, device->second.rates);
    product.tflops = cost.work.base() / cost.total.base() / 1e12;
  }
  return products;
}

std::string products_table(const std::vector<ProductPrediction>& products, std::size_t most) {
  TextTable groups({"<device", "<precision", "<source", "products", "mean error", "median", "worst", "bias", "<"}, 0);
  for (const auto& [key, members] : product_groups(products)) {
    const ProductErrors errors = errors_of(members);
    if (errors.rows == 0) continue;
    groups.row({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::to_string(errors.rows), percent(errors.mean),
                percent(errors.median), signed_percent(errors.signed_worst), signed_percent(errors.bias),
                errors.used ? "its calibration rests on these" : ""});
  }
  std::vector<const ProductPrediction*> rows;
  std::map<std::string, int> skipped;
  for (const ProductPrediction& product : products) {
    if (product.error())
      rows.push_back(&product);
    else
      ++skipped[product.row.gpu + ": " + product.skipped];
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return std::abs(*a->error()) > std::abs(*b->error()); });
  TextTable table({"<device", "<source", "m x n x k", "measured TFLOP/s", "predicted", "error of time"}, 0);
  const std::size_t shown = most == 0 ? rows.size() : std::min(most, rows.size());
  for (std::size_t i = 0; i < shown; ++i)
    table.row({rows[i]->row.gpu, rows[i]->row.source, shape_text(rows[i]->row), fmt::format("{:.1f}", rows[i]->row.tflops),
               fmt::format("{:.1f}", rows[i]->tflops), signed_percent(*rows[i]->error())});
  if (shown < rows.size())
    table.line(fmt::format("... and {} products with smaller errors (--all shows them)", rows.size() - shown));
  std::string text = groups.text() + "\n" + table.text();
  for (const auto& [what, count] : skipped) text += fmt::format("skipped {}: {}\n", count, what);
  return text;
}

std::string products_json(const std::vector<ProductPrediction>& products) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe/products/1");
  out.objects("groups", product_groups(products), [&](const auto& group) {
    const ProductErrors errors = errors_of(group.second);
    const auto& [gpu, precision, source] = group.first;
    out.field("gpu", gpu).field("precision", precision).field("source", source);
    out.field("products", errors.rows).field("mean_absolute_error", errors.mean).field("median_absolute_error", errors.median);
    out.field("worst", errors.signed_worst).field("bias", errors.bias).field("used", errors.used);
  });
  out.objects("rows", products, [&](const ProductPrediction& product) {
    const ProductRow& row = product.row;
    out.field("gpu", row.gpu).field("precision", row.precision).field("source", row.source).field("batch", row.batch);
    out.field("m", row.m).field("n", row.n).field("k", row.k).field("measured_tflops", row.tflops);
    out.field("predicted_tflops", product.skipped.empty() ? std::optional(product.tflops) : std::nullopt);
    out.field("relative_error", product.error()).field("used", row.used);
    out.field("skipped", product.skipped.empty() ? std::optional<std::string>() : std::optional(product.skipped));
  });
  return out.end().finish();
}

}  // namespace panpipe::validation
