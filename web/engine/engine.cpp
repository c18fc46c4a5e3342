// What the module exports: panpipe_answer, one request in, one answer out.
#include <emscripten.h>

#include <exception>
#include <filesystem>
#include <string>

#include "app/failure.hpp"
#include "base/error.hpp"
#include "base/files/installation.hpp"
#include "base/option_fault.hpp"
#include "web/engine/call.hpp"

// clang-format off
EM_JS(void, tell_page, (const char* text), { if (Module.onProgress) Module.onProgress(UTF8ToString(text)); })
// clang-format on

namespace panpipe::web {
namespace {

struct CallRow {
  const char* name;
  Answer (*answer)(const Call& call);
};
constexpr CallRow kCalls[] = {{"lists", answer_lists},     {"predict", answer_predict}, {"view", answer_view},
                              {"compare", answer_compare}, {"plan", answer_plan},       {"schedule", answer_schedule},
                              {"arena", answer_arena},     {"links", answer_links},     {"read", answer_read}};

Answer error_answer(const std::exception_ptr& error) {
  const app::Failure failure = app::failure_of(error);
  Json all = Json::array();
  for (const Diagnostic& fault : failure.diagnostics)
    all.push_back({{"message", fault.message},
                   {"help", fault.help},
                   {"key", fault.key},
                   {"place", fault.place},
                   {"code", fault.code},
                   {"file", fault.file},
                   {"line", fault.line},
                   {"column", fault.column},
                   {"excerpt", fault.excerpt},
                   {"text", fault.text()}});
  Json made = all.empty() ? Json{{"message", failure.text}, {"help", ""}, {"key", ""}, {"place", ""}, {"code", ""}} : all.front();
  made["text"] = failure.text;
  made["exit"] = static_cast<int>(failure.code);
  made["diagnostics"] = std::move(all);
  return Answer().add("error", made);
}

Answer answer_of(const std::string& text) {
  const Json request = Json::parse(text);
  const Call call(request);
  const std::string name = call.text("call");
  std::vector<std::string> names;
  for (const CallRow& row : kCalls) {
    if (row.name == name) return row.answer(call);
    names.emplace_back(row.name);
  }
  throw unknown_choice("call", name, names);
}

// In a browser, files of a call have a folder of their own; in node it is the caller's.
void go_to_folder() {
  if (std::filesystem::current_path() != "/") return;
  std::filesystem::create_directory("/page");
  std::filesystem::current_path("/page");
}

}  // namespace

void report_progress(const Json& state) { tell_page(state.dump().c_str()); }

}  // namespace panpipe::web

static std::string last_answer, last_bytes;

// The answer is valid until the next call. A failure of any kind is an answer with `error`.
extern "C" EMSCRIPTEN_KEEPALIVE const char* panpipe_answer(const char* request) {
  using namespace panpipe;
  set_program_folder("/panpipe/bin");
  last_answer.clear();
  last_bytes.clear();
  try {
    web::go_to_folder();
    const web::Answer answer = web::answer_of(request);
    last_answer = answer.json();
    last_bytes = answer.bytes();
  } catch (...) {
    last_answer = web::error_answer(std::current_exception()).json();
  }
  return last_answer.c_str();
}

// The columns of the answer's picture, as many as the second returns.
extern "C" EMSCRIPTEN_KEEPALIVE const char* panpipe_bytes() { return last_bytes.data(); }
extern "C" EMSCRIPTEN_KEEPALIVE int panpipe_bytes_size() { return static_cast<int>(last_bytes.size()); }
