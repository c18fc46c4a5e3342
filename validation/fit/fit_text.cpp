// A fit as a calibration file, and as a table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "validation/fit/fit.hpp"

namespace panpipe {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string errors_text(const FitErrors& e) {
  return fmt::format("{{rows: {}, mean: {}, median: {}, worst: {}, bias: {:+.1f} %}}", e.rows, percent(e.mean), percent(e.median),
                     percent(e.worst), 100 * e.bias);
}

std::string provenance(const Fit& fit, const FittedParameter& p) {
  std::string text = fmt::format("least squares over {} measured runs (see fit)", fit.row_ids.size());
  if (!p.determined) text += "; these runs say little about it: near its start value";
  if (p.at_bound) text += "; at the end of its range";
  return text;
}

const FittedParameter* fitted(const Fit& fit, const std::string& key) {
  for (const FittedParameter& p : fit.parameters)
    if (key == p.parameter->key) return &p;
  return nullptr;
}

// Ids in lines of at most this many characters.
constexpr std::size_t kLine = 120;

std::string ids_text(const std::vector<std::string>& ids) {
  std::string out, line = "    ";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string item = ids[i] + (i + 1 < ids.size() ? ", " : "");
    if (line.size() + item.size() > kLine) {
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
      line = "    ";
    }
    line += item;
  }
  return out + line + "\n";
}

}  // namespace

FitErrors errors_of(const std::vector<double>& predicted, const std::vector<double>& measured) {
  FitErrors errors;
  std::vector<double> absolute;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const double error = predicted[i] / measured[i] - 1;
    errors.bias += error;
    absolute.push_back(std::abs(error));
  }
  errors.rows = static_cast<int>(absolute.size());
  if (absolute.empty()) return errors;
  errors.bias /= errors.rows;
  errors.mean = std::accumulate(absolute.begin(), absolute.end(), 0.0) / errors.rows;
  std::sort(absolute.begin(), absolute.end());
  errors.worst = absolute.back();
  const std::size_t half = absolute.size() / 2;
  errors.median = absolute.size() % 2 == 1 ? absolute[half] : (absolute[half - 1] + absolute[half]) / 2;
  return errors;
}

std::string to_yaml(const Fit& fit, const std::string& name, const std::vector<std::string>& devices) {
  std::string list;
  for (const std::string& device : devices) list += (list.empty() ? "" : ", ") + device;
  std::string out = fmt::format("# {}: {} numbers fitted to {} measured runs by panpipe fit\n", list, fit.parameters.size(),
                                fit.row_ids.size());
  out += fmt::format(
      "panpipe: 1\nkind: calibration\nname: {}\ndescription: \"{} numbers fitted to {} measured runs\"\ndevices: [{}]\n", name,
      fit.parameters.size(), fit.row_ids.size(), list);
  for (const FittedParameter& p : fit.parameters) {
    const FitParameter& of = *p.parameter;
    out += fmt::format("{}: {{value: {}, uncertainty: {}, start: {}, range: [{}, {}], source: \"{}\"}}\n", of.key,
                       value_text(of, p.value), value_text(of, p.uncertainty), value_text(of, p.start), value_text(of, of.low),
                       value_text(of, of.high), provenance(fit, p));
  }
  // What was not fitted stands as it was.
  for (const auto& [key, value] : fit.calibration.values) {
    if (fitted(fit, key) != nullptr) continue;
    const auto source = fit.calibration.sources.find(key);
    out += fmt::format("{}: {{value: {}, source: \"{}\"}}\n", key, value,
                       source == fit.calibration.sources.end() ? "" : source->second);
  }
  out += "fit:\n";
  out += fmt::format("  before: {}\n  after: {}\n", errors_text(fit.before), errors_text(fit.after));
  out += fmt::format("  cross_validated: {}  # each row by a fit without its fold\n", errors_text(fit.folds));
  for (const auto& [title, groups] :
       {std::pair("by_source", &fit.by_source), std::pair("without_own_source", &fit.without_own)}) {
    if (groups->empty()) continue;
    out += fmt::format("  {}:\n", title);
    for (const auto& [source, errors] : *groups)
      out += fmt::format("    {}: {}\n", source.empty() ? "not stated" : source, errors_text(errors));
  }
  return out + "  rows: [\n" + ids_text(fit.row_ids) + "  ]\n";
}

std::string to_table(const Fit& fit) {
  std::string out = fmt::format("  {:<22}{:>12}{:>12}{:>12}   {}\n", "", "start", "fitted", "+-", "range");
  for (const FittedParameter& p : fit.parameters)
    out += fmt::format("  {:<22}{:>12}{:>12}{:>12}   {} to {}{}\n", p.parameter->key, value_text(*p.parameter, p.start),
                       value_text(*p.parameter, p.value), value_text(*p.parameter, p.uncertainty),
                       value_text(*p.parameter, p.parameter->low), value_text(*p.parameter, p.parameter->high),
                       p.at_bound     ? ", at its end"
                       : p.determined ? ""
                                      : ", little said of it");
  const auto line = [&](const std::string& what, const FitErrors& e) {
    out += fmt::format("  {:<28}{:>5} rows: mean {:>7}, median {:>7}, worst {:>7}, bias {:+.1f} %\n", what, e.rows,
                       percent(e.mean), percent(e.median), percent(e.worst), 100 * e.bias);
  };
  out += "\n";
  line("with the start values", fit.before);
  line("fitted", fit.after);
  line("left out by folds", fit.folds);
  for (const auto& [source, errors] : fit.by_source) {
    line(source, errors);
    if (const auto found = fit.without_own.find(source); found != fit.without_own.end())
      line("  fitted without it", found->second);
  }
  return out + fmt::format("\n  {} iterations: {}\n", fit.iterations, fit.termination);
}

}  // namespace panpipe
