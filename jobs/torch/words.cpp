#include "jobs/torch/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "base/text/json_writer.hpp"

namespace panpipe::jobs {
namespace {

using Operand = std::function<std::string(int)>;

std::string python_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text == "inf" || text == "-inf" || text == "nan") return fmt::format("float(\"{}\")", text);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

struct ArgumentText {
  const Operand& operand;
  std::string operator()(const NoArgument& /*none*/) const { return "None"; }
  std::string operator()(const TensorRef& ref) const { return ref.tensor < 0 ? "None" : operand(ref.tensor); }
  std::string operator()(const TensorList& list) const {
    std::vector<std::string> items;
    for (const int tensor : list.tensors) items.push_back(tensor < 0 ? "None" : operand(tensor));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return python_number(value); }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(const std::string& value) const { return json_text(value); }
  std::string operator()(const std::vector<std::int64_t>& values) const { return fmt::format("[{}]", fmt::join(values, ", ")); }
  std::string operator()(const std::vector<double>& values) const {
    std::vector<std::string> items;
    for (const double value : values) items.push_back(python_number(value));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::string operator()(DType type) const { return torch_type(type); }
  std::string operator()(const DeviceOfRank& /*device*/) const { return "DEVICE"; }
};

bool is_neutral(const Argument& argument) {  // None, False, 1
  if (const auto* flag = std::get_if<bool>(&argument)) return !*flag;
  if (const auto* whole = std::get_if<std::int64_t>(&argument)) return *whole == 1;
  if (const auto* number = std::get_if<double>(&argument)) return *number == 1;
  return std::holds_alternative<NoArgument>(argument);
}

// `{length}`: of the part that a slice with a step of 1 takes.
std::optional<std::string> length_of(const Operator& op) {
  const auto start = value_argument<std::int64_t>(op, "start"), end = value_argument<std::int64_t>(op, "end");
  if (!start || !end || *start < 0 || *end < *start || value_argument<std::int64_t>(op, "step").value_or(1) != 1) return {};
  return std::to_string(*end - *start);
}

// The row's own text: {name} is an argument, and what stands in [] is left out if its argument changes nothing. Nothing if an
// argument has no text.
std::optional<std::string> idiom_of(const Operator& op, std::string_view text, const Operand& operand) {
  if (text.empty()) return {};
  std::string made;
  std::size_t optional = std::string::npos;  // where the part in [] begins
  bool neutral = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') {
      optional = made.size();
    } else if (text[at] == ']') {
      if (neutral) made.resize(optional);
      optional = std::string::npos;
    } else if (text[at] == '{') {
      const std::string_view name = text.substr(at + 1, text.find('}', at) - at - 1);
      at += name.size() + 1;
      if (const Argument* given = argument(op, name)) {
        if (optional != std::string::npos) neutral = is_neutral(*given);
        made += std::visit(ArgumentText{operand}, *given);
      } else if (optional != std::string::npos) {
        neutral = true;
      } else if (const auto length = name == "length" ? length_of(op) : std::nullopt) {
        made += *length;
      } else {
        return {};
      }
    } else {
      made += text[at];
    }
  }
  return made;
}

bool is_word(const std::string& part) {
  return !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])) == 0 &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

bool all_words(const std::string& path) {
  const std::vector<std::string> parts = split_text(path, '.');
  return std::all_of(parts.begin(), parts.end(), is_word);
}

}  // namespace

std::string tuple_of(const Shape& shape) { return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : ""); }

std::string torch_type(DType type) { return "torch." + std::string(name_of(type)); }

std::string parameter_text(const std::string& name, DType type) {
  const std::string path = all_words(name) ? "m." + name : fmt::format("m.get_parameter({})", json_text(name));
  return type == DType::Float32 ? path : fmt::format("{}.to({})", path, torch_type(type));
}

bool is_own(const OperatorRow& row) { return row.name.starts_with("panpipe_nn::"); }

std::string call_text(const Operator& op, const Operand& operand) {
  const OperatorRow& row = row_of(op);
  if (op.argument_names.empty())
    if (auto idiom = idiom_of(op, row.traits.torch, operand)) return std::move(*idiom);
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < op.arguments.size(); ++i) {
    const bool named = i < op.argument_names.size() && !op.argument_names[i].empty();
    arguments.push_back((named ? op.argument_names[i] + "=" : "") + std::visit(ArgumentText{operand}, op.arguments[i]));
  }
  const std::size_t colon = op.target.find("::"), dot = op.target.find('.');
  const std::string name = op.target.substr(colon + 2, dot == std::string::npos ? dot : dot - colon - 2);
  if (is_own(row)) return fmt::format("{}({})", name, fmt::join(arguments, ", "));
  const std::string overload = dot == std::string::npos ? "default" : op.target.substr(dot + 1);
  return fmt::format("torch.ops.{}.{}.{}({})", op.target.substr(0, colon), name, overload, fmt::join(arguments, ", "));
}

}  // namespace panpipe::jobs
