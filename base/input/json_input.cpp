#include "base/input/json_input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/input/error_with_caret.hpp"
#include "base/input/source_text.hpp"

namespace panpipe {
namespace {

struct Fault {
  std::size_t offset = 0;  // bytes before it
  std::string message, help;
};

// Walks text that did not parse once more, only to learn where and why: nlohmann's exceptions do not always have the place.
class FaultFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Fault fault;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& error) override {
    constexpr int kNumberTooLarge = 406;  // nlohmann's number of this fault
    if (error.id == kNumberTooLarge) {
      fault = {position - std::min(position, token.size()), fmt::format("the number {} is too large", token),
               "numbers go up to 1.8e308, the largest double"};
      return false;
    }
    // "[json.exception.parse_error.101] parse error at ...: syntax error while parsing value - WHY; last read: 'TEXT'; expected
    // THAT"
    std::string why = error.what();
    if (const auto dash = why.find(" - "); dash != std::string::npos) why.erase(0, dash + 3);
    if (const auto read = why.find("; last read: "); read != std::string::npos) {
      const auto expected = why.rfind("; expected ");
      why = why.substr(0, read) + (expected != std::string::npos && expected > read ? why.substr(expected) : "");
    }
    fault = {position - std::min<std::size_t>(position, 1), "this is not JSON: " + why, ""};
    return false;
  }
};

[[noreturn]] void refuse(const std::string& text, const std::string& name, const Fault& fault) {
  SourceText source;
  source.name = name;
  checked_text(text, source);  // bytes that are no text are the better reason
  const std::size_t offset = std::min(fault.offset, text.size());
  const auto begin_of_line = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
  std::size_t first = begin_of_line == std::string::npos ? 0 : begin_of_line + 1;
  if (first == 0 && text.compare(0, 3, "\xEF\xBB\xBF") == 0) first = std::min<std::size_t>(offset, 3);  // a byte-order mark
  const auto line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  const int column = character_column(source, line, static_cast<int>(offset - first));
  throw InputError({render_diagnostic(source, false, line, column, "", fault.message, fault.help, code::kSyntax)});
}

// Where brackets outside of strings are too deep; the text's size when nowhere.
std::size_t too_deep_at(const std::string& text) {
  int depth = 0;
  bool inside = false;  // of a string
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inside = false;
    } else if (c == '"') {
      inside = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return text.size();
}

}  // namespace

template <class Json>
Json parse_json(const std::string& text, const std::string& name, const typename Json::parser_callback_t& keep) {
  if (const std::size_t deep = too_deep_at(text); deep < text.size())
    refuse(text, name, {deep, fmt::format("this is nested more than {} levels deep", kDeepestJson), ""});
  try {
    return Json::parse(text, keep);
  } catch (const typename Json::exception&) {
    FaultFinder finder;
    nlohmann::json::sax_parse(text, &finder);
    refuse(text, name, finder.fault);
  }
}

template nlohmann::json parse_json(const std::string&, const std::string&, const nlohmann::json::parser_callback_t&);
template nlohmann::ordered_json parse_json(const std::string&, const std::string&,
                                           const nlohmann::ordered_json::parser_callback_t&);

}  // namespace panpipe
