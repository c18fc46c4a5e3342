#include "jobs/torch_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.hpp"
#include "base/text/json_writer.hpp"

namespace panpipe::jobs {
namespace {

using Operand = std::function<std::string(int)>;

std::string list_text(const std::vector<std::string>& items, const char* open, const char* close) {
  return fmt::format("{}{}{}", open, fmt::join(items, ", "), close);
}

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
    return list_text(items, "[", "]");
  }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return python_number(value); }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(const std::string& value) const { return json_text(value); }
  std::string operator()(const std::vector<std::int64_t>& values) const {
    std::vector<std::string> items;
    for (const std::int64_t value : values) items.push_back(std::to_string(value));
    return list_text(items, "[", "]");
  }
  std::string operator()(const std::vector<double>& values) const {
    std::vector<std::string> items;
    for (const double value : values) items.push_back(python_number(value));
    return list_text(items, "[", "]");
  }
  std::string operator()(DType type) const { return torch_type(type); }
  std::string operator()(const DeviceOfRank& /*device*/) const { return "DEVICE"; }
};

// How people write an operator: {0} is the first argument, and so on.
struct Idiom {
  std::string_view target, text;
};
constexpr Idiom kIdioms[] = {
    {"aten::linear", "F.linear({0}, {1}, {2})"},
    {"aten::embedding", "F.embedding({1}, {0})"},
    {"aten::layer_norm", "F.layer_norm({0}, {1}, {2}, {3}, {4})"},
    {"aten::rms_norm", "F.rms_norm({0}, {1}, {2}, {3})"},
    {"panpipe_nn::zero_centered_rms_norm", "F.rms_norm({0}, {1}, 1 + {2}, {3})"},
    {"aten::group_norm", "F.group_norm({0}, {1}, {2}, {3}, {4})"},
    {"aten::conv2d", "F.conv2d({0}, {1}, {2}, {3}, {4}, {5}, {6})"},
    {"aten::gelu", "F.gelu({0}, approximate={1})"},
    {"aten::silu", "F.silu({0})"},
    {"aten::relu", "F.relu({0})"},
    {"aten::tanh", "torch.tanh({0})"},
    {"aten::sigmoid", "torch.sigmoid({0})"},
    {"aten::neg", "-{0}"},
    {"aten::add.Tensor", "{0} + {1}"},
    {"aten::mul.Tensor", "{0} * {1}"},
    {"aten::mul.Scalar", "{0} * {1}"},
    {"aten::view", "{0}.view({1})"},
    {"aten::reshape", "{0}.reshape({1})"},
    {"aten::transpose.int", "{0}.transpose({1}, {2})"},
    {"aten::permute", "{0}.permute({1})"},
    {"aten::unsqueeze", "{0}.unsqueeze({1})"},
    {"aten::expand", "{0}.expand({1})"},
    {"aten::select.int", "{0}.select({1}, {2})"},
    {"aten::split.Tensor", "{0}.split({1}, {2})"},
    {"aten::cat", "torch.cat({0}, {1})"},
    {"aten::to.dtype", "{0}.to({1})"},
    {"aten::dropout", "F.dropout({0}, {1})"},
    {"aten::scaled_dot_product_attention",
     "F.scaled_dot_product_attention({0}, {1}, {2}, dropout_p={4}, is_causal={5}, scale={6}, enable_gqa={7})"},
    {"aten::cross_entropy_loss", "F.cross_entropy({0}, {1}, ignore_index={4})"},
};

std::string filled(std::string_view text, const std::vector<std::string>& arguments) {
  std::string made;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') {
      made += arguments.at(static_cast<std::size_t>(text[at + 1] - '0'));
      at += 2;
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
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    if (!is_word(path.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

std::string tuple_of(const Shape& shape) { return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : ""); }

std::string torch_type(DType type) { return "torch." + std::string(name_of(type)); }

std::string parameter_text(const std::string& name, DType type) {
  const std::string path = all_words(name) ? "m." + name : fmt::format("m.get_parameter({})", json_text(name));
  return type == DType::Float32 ? path : fmt::format("{}.to({})", path, torch_type(type));
}

std::string call_text(const Operator& op, const Operand& operand) {
  std::vector<std::string> arguments;
  for (const Argument& argument : op.arguments) arguments.push_back(std::visit(ArgumentText{operand}, argument));
  if (op.argument_names.empty()) {
    if (op.target == "aten::slice.Tensor" && arguments.size() == 5 && arguments[4] == "1" && arguments[3] != "None") {
      const auto* start = std::get_if<std::int64_t>(&op.arguments[2]);
      const auto* end = std::get_if<std::int64_t>(&op.arguments[3]);
      if (start != nullptr && end != nullptr && *start >= 0 && *end >= *start)
        return fmt::format("{}.narrow({}, {}, {})", arguments[0], arguments[1], *start, *end - *start);
    }
    for (const Idiom& idiom : kIdioms)
      if (op.target == idiom.target) return filled(idiom.text, arguments);
  } else {
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (!op.argument_names[i].empty()) arguments[i] = op.argument_names[i] + "=" + arguments[i];
  }
  const std::size_t colon = op.target.find("::"), dot = op.target.find('.');
  const std::string library = op.target.substr(0, colon);
  const std::string name = op.target.substr(colon + 2, dot == std::string::npos ? dot : dot - colon - 2);
  if (library == "panpipe_nn") return fmt::format("{}({})", name, fmt::join(arguments, ", "));
  const std::string overload = dot == std::string::npos ? "default" : op.target.substr(dot + 1);
  return fmt::format("torch.ops.{}.{}.{}({})", library, name, overload, fmt::join(arguments, ", "));
}

}  // namespace panpipe::jobs
