#include "web/engine/call.hpp"

#include <emscripten/version.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/files/files_write.hpp"
#include "base/text/json_writer.hpp"

namespace panpipe::web {
namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& expected) {
  throw InputError({{.message = "expected " + expected, .key = key, .code = code::kWrongType}});
}

}  // namespace

Call::Call(const Json& request) : request_(request) {
  if (has("files"))
    for (const auto& [name, contents] : at("files").items())
      if (contents.is_string()) write(name, contents.get<std::string>());  // null: it is there
  if (has("scenario")) write(name(), text("scenario"));
}

Call::~Call() {
  for (const std::string& file : written_) unlink(file.c_str());
}

void Call::write(const std::string& name, const std::string& contents) {
  const std::filesystem::path path(name);
  bool inside = path.is_relative() && path.has_filename();
  for (const auto& part : path) inside = inside && part != "..";
  if (!inside) throw InputError(fmt::format("'{}' is no name of a file of the page", name));
  written_.push_back(name);
  write_file(name, contents, "");
}

const Json& Call::at(const std::string& key) const {
  const auto found = request_.find(key);
  if (found == request_.end())
    throw InputError({{.message = fmt::format("the call needs '{}'", key), .key = key, .code = code::kMissingKey}});
  return *found;
}

std::string Call::text(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_string()) refuse(key, "a text");
  return at(key).get<std::string>();
}

double Call::real(const std::string& key, double fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_number()) refuse(key, "a number");
  return at(key).get<double>();
}

int Call::number(const std::string& key, int fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_number_integer()) refuse(key, "a whole number");
  return at(key).get<int>();
}

bool Call::truth(const std::string& key) const {
  if (!has(key)) return false;
  if (!at(key).is_boolean()) refuse(key, "true or false");
  return at(key).get<bool>();
}

std::vector<std::string> Call::texts(const std::string& key) const {
  std::vector<std::string> all;
  if (!has(key)) return all;
  if (!at(key).is_array()) refuse(key, "a list of texts");
  for (const Json& one : at(key)) {
    if (!one.is_string()) refuse(key, "a list of texts");
    all.push_back(one.get<std::string>());
  }
  return all;
}

std::string Call::name() const { return text("name", "page.yaml"); }

std::string Call::question() const {
  if (!has("scenario")) return "";
  if (has("files"))
    for (const auto& [name, contents] : at("files").items())
      if (!contents.is_string()) return "";
  Json question = request_;
  question.erase("want");
  return question.dump();
}

Scenario Call::load() const { return load_scenario(name(), settings(), text("plan")); }

Answer& Answer::add_json(const std::string& key, const std::string& json) {
  text_ += (text_.empty() ? "{" : ",") + json_text(key) + ":" + json;
  return *this;
}

Answer& Answer::add_picture(const present::PictureData& picture) {
  bytes_ = picture.bytes;
  return add_json("picture", picture.json);
}

app::NamesAndValues libraries() {
  return {{"emscripten", fmt::format("{}.{}.{}", __EMSCRIPTEN_major__, __EMSCRIPTEN_minor__, __EMSCRIPTEN_tiny__)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
}

}  // namespace panpipe::web
