// A fit as a calibration file, and as a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/files/file_hash.hpp"
#include "base/input/reader.hpp"
#include "base/input/scalar_text.hpp"
#include "base/text/percent.hpp"
#include "base/text/text_table.hpp"
#include "validation/fit/fit.hpp"

namespace panpipe::validation {
namespace {

std::string errors_text(const ErrorSizes& e) {
  return fmt::format("{{rows: {}, mean: {}, median: {}, worst: {}, bias: {}}}", e.rows, percent(e.mean), percent(e.median),
                     percent(e.worst), signed_percent(e.bias));
}

std::string provenance(const Fit& fit, const FittedParameter& p) {
  std::string text = fmt::format("least squares over {} measured runs (see fit)", fit.row_ids.size());
  if (!p.determined) text += "; these runs say little about it: near its start value";
  if (p.at_bound) text += "; at the end of its range";
  const auto start = fit.calibration.sources.find(p.parameter->key);
  if (start != fit.calibration.sources.end() && !start->second.empty()) text += "; start: " + start->second;
  return text;
}

const FittedParameter* fitted(const Fit& fit, const std::string& key) {
  for (const FittedParameter& p : fit.parameters)
    if (key == p.parameter->key) return &p;
  return nullptr;
}

// Of steps predicted by fitted numbers: more is no scatter.
constexpr double kNotableBias = 0.03;

// Ids in lines of at most this many characters.
constexpr std::size_t kLine = 120;

std::string ids_text(const std::vector<std::string>& ids) {
  std::string out, line = "      ";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string item = ids[i] + (i + 1 < ids.size() ? ", " : "");
    if (line.size() + item.size() > kLine) {
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = "      ";
    }
    line += item;
  }
  return out + line + "\n";
}

std::string named(const std::string& name) { return name.empty() ? "not stated" : name; }

std::string rows_text(const Fit& fit) {
  std::map<std::string, std::vector<std::string>> ids;
  for (std::size_t i = 0; i < fit.row_ids.size(); ++i) ids[named(fit.row_sources[i])].push_back(fit.row_ids[i]);
  std::string out = "  rows:\n";
  for (const auto& [source, of] : ids) out += fmt::format("    {}: [\n{}    ]\n", source, ids_text(of));
  return out;
}

// The frameworks' numbers take part in every prediction: with others the fit would be another.
std::string frameworks_text(const Fit& fit) {
  std::map<std::string, int> rows;
  for (const std::string& name : fit.row_frameworks) ++rows[name];
  std::string out = "  frameworks:\n";
  for (const auto& [name, count] : rows) {
    const std::string path = data_directory() + "/frameworks/" + name + ".yaml";
    out += fmt::format("  - {{name: {}, rows: {}, sha256: {}}}\n", name, count, sha256_of_file(path).substr(0, 16));
  }
  return out;
}

constexpr std::string_view kNotFitted = "not fitted;";

std::string numbers_text(const Fit& fit) {
  std::string out;
  for (const FittedParameter& p : fit.parameters) {
    const FitParameter& of = *p.parameter;
    const std::string uncertainty =
        std::isfinite(p.uncertainty) ? fmt::format("uncertainty: {}, ", value_text(of, p.uncertainty)) : "";
    out +=
        fmt::format("{}: {{value: {}, {}start: {}, range: [{}, {}], source: {}}}\n", of.key, value_text(of, p.value), uncertainty,
                    value_text(of, p.start), value_text(of, of.low), value_text(of, of.high), quoted_scalar(provenance(fit, p)));
  }
  // Numbers that were not fitted stay as they were.
  for (const auto& [key, value] : fit.calibration.values) {
    if (fitted(fit, key) != nullptr) continue;
    const auto source = fit.calibration.sources.find(key);
    std::string origin = source == fit.calibration.sources.end() ? "" : source->second;
    if (!origin.starts_with(kNotFitted)) origin = fmt::format("{} {}", kNotFitted, origin);
    // It follows gemm_efficiency.
    const bool follows = key == "earlier_gemm_efficiency";
    out += fmt::format("{}: {{value: {}, source: {}}}\n", key,
                       follows ? fmt::format("{:.4g}", fit.calibration.earlier_gemm_efficiency) : value, quoted_scalar(origin));
  }
  return out;
}

}  // namespace

ErrorSizes errors_of(const std::vector<double>& predicted, const std::vector<double>& measured) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < predicted.size(); ++i) errors.push_back(predicted[i] / measured[i] - 1);
  return error_sizes(errors);
}

std::string to_yaml(const Fit& fit, const FitRecord& record) {
  const std::string devices = fmt::format("{}", fmt::join(record.devices, ", "));
  const std::string what = fmt::format("{} {} fitted to {} measured runs", fit.parameters.size(),
                                       fit.parameters.size() == 1 ? "number" : "numbers", fit.row_ids.size());
  std::string out =
      fmt::format("# {}: {} by panpipe fit; do not edit, make it again with the command under 'fit'\n", devices, what);
  out += fmt::format("panpipe: 1\nkind: calibration\nname: {}\ndescription: {}\ndevices: [{}]\n", record.name,
                     quoted_scalar(what), devices);
  out += numbers_text(fit);
  out += "fit:\n";
  if (!record.command.empty()) out += fmt::format("  command: {}\n", quoted_scalar(record.command));
  out += fmt::format("  state: {}\n", fit.interrupted ? "interrupted, the best until then"
                                      : fit.converged ? "converged"
                                                      : "not converged");
  out += fmt::format("  loss: {{robust_scale: {:.4g}, balance: {:.4g}}}\n", fit.options.robust_scale, fit.options.balance);
  out += "  spreads: {";  // as shares: how far from its start each number was allowed for nothing
  for (const FittedParameter& p : fit.parameters)
    out += fmt::format("{}{}: {:.3g}", &p == &fit.parameters.front() ? "" : ", ", p.parameter->key, p.spread);
  out += "}\n";
  if (fit.options.cluster_factor) out += fmt::format("  cluster_factor: {:.4g}\n", fit.cluster_factor);
  if (!record.files.empty()) out += "  files:\n";
  for (const FitRecord::File& file : record.files)
    out += fmt::format("  - {{name: {}, sha256: {}}}\n", quoted_scalar(file.name), file.sha256.substr(0, 16));
  out += frameworks_text(fit);
  out += fmt::format("  before: {}\n  after: {}\n", errors_text(fit.before), errors_text(fit.after));
  if (fit.folds.rows > 0)
    out += fmt::format("  cross_validated: {}  # each row by a fit without its fold\n", errors_text(fit.folds));
  for (const auto& [title, groups] :
       {std::pair("by_source", &fit.by_source), std::pair("without_own_source", &fit.without_own)}) {
    if (groups->empty()) continue;
    out += fmt::format("  {}:\n", title);
    for (const auto& [source, errors] : *groups) out += fmt::format("    {}: {}\n", named(source), errors_text(errors));
  }
  if (!fit.overfits.empty()) out += "  overfitted:\n";
  for (const std::string& warning : fit.overfits) out += fmt::format("  - {}\n", quoted_scalar(warning));
  out += rows_text(fit);
  if (!record.left_out.empty()) out += "  left_out:\n";
  for (const std::string& line : record.left_out) out += fmt::format("  - {}\n", quoted_scalar(line));
  return out;
}

std::string to_table(const Fit& fit) {
  std::string out;
  if (fit.options.cluster_factor)
    out = fmt::format(
        "the measured steps take {:.3g} times as long as the start predicts, all numbers alike; each was fitted from there\n\n",
        fit.cluster_factor);
  TextTable numbers({"<", "start", "fitted", "+-", "<range"});
  for (const FittedParameter& p : fit.parameters) {
    const FitParameter& of = *p.parameter;
    const char* doubt = p.at_bound ? ", at its end" : p.determined ? "" : ", hardly determined";
    numbers.row({of.key, value_text(of, p.start), value_text(of, p.value), value_text(of, p.uncertainty),
                 fmt::format("{} to {}{}", value_text(of, of.low), value_text(of, of.high), doubt)});
  }
  TextTable errors({"<errors", "rows", "mean", "median", "worst", "bias"});
  const auto row = [&](const std::string& what, const ErrorSizes& e) {
    errors.row({what, std::to_string(e.rows), percent(e.mean), percent(e.median), percent(e.worst), signed_percent(e.bias)});
  };
  row("with the start values", fit.before);
  row("fitted", fit.after);
  if (fit.folds.rows > 0) row("left out by folds", fit.folds);
  for (const auto& [source, errors_of_source] : fit.by_source) {
    row(source, errors_of_source);
    if (const auto found = fit.without_own.find(source); found != fit.without_own.end())
      row("  fitted without it", found->second);
  }
  out += numbers.text() + "\n" + errors.text();
  out += fmt::format("\n  {} iterations, {}\n", fit.iterations,
                     fit.interrupted ? "interrupted, the best until then"
                     : fit.converged ? "converged"
                                     : "not converged: more with --iterations");
  for (const std::string& warning : fit.overfits) out += "  overfitted: " + warning + "\n";
  if (std::abs(fit.after.bias) > kNotableBias)
    out += fmt::format(
        "  a bias of {} is left, which these numbers cannot take up: fit more of them, or predict with the rows "
        "as evidence (--evidence FILE)\n",
        signed_percent(fit.after.bias));
  return out;
}

bool was_fitted(const std::string& calibration_file) {
  const NodePtr root = load_document(calibration_file);
  return root->kind == NodeKind::Map && root->find("fit") != nullptr;
}

std::map<std::string, double> stated_spreads(const std::string& calibration_file) {
  std::map<std::string, double> spreads;
  const NodePtr root = load_document(calibration_file);
  ReadLog log;
  for (const FitParameter& parameter : fit_parameters()) {
    const Node* entry = root->find(parameter.key);
    if (entry == nullptr || entry->find("uncertainty") == nullptr) continue;
    MapReader reader(*entry, log);
    const auto read = [&](const char* key) {
      return *parameter.unit == '\0' ? reader.number(key, Sign::Positive) : reader.duration(key).base();
    };
    const double value = read("value"), uncertainty = read("uncertainty");
    if (value > 0 && uncertainty > 0) spreads[parameter.key] = uncertainty / value;
  }
  log.throw_if_errors();
  return spreads;
}

std::string left_out_csv(const Fit& fit) {
  std::string text = "id,source,left_out_s\n";
  for (std::size_t i = 0; i < fit.left_out_s.size(); ++i)
    if (!std::isnan(fit.left_out_s[i]))
      text += fmt::format("{},{},{:.9g}\n", fit.row_ids[i], fit.row_sources[i], fit.left_out_s[i]);
  return text;
}

}  // namespace panpipe::validation
