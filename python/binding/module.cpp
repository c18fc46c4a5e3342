// The module _core: what the functions of the package call. Failures become the package's exceptions here.
#include <dlfcn.h>
#include <fmt/format.h>
#include <malloc.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/files/installation.hpp"
#include "base/stop.hpp"
#include "base/text/text_style.hpp"
#include "base/version.hpp"
#include "python/binding/arrow.hpp"
#include "python/binding/bindings.hpp"
#include "python/binding/interruptible.hpp"
#include "python/binding/predictions.hpp"

namespace panpipe::python {
namespace {

// The part of a rendered diagnostic that stands behind a mark, to the end of its line or, of the last part, of the text.
std::string part_behind(const std::string& text, const std::string& mark, bool to_the_end) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + mark.size();
  return text.substr(begin, to_the_end ? std::string::npos : text.find('\n', begin) - begin);
}

// Rows of an order may be thousands of letters.
std::string shown_override(const std::string& text) {
  constexpr std::size_t kShown = 80;
  return "set " + shortened(text, kShown);
}

// Options of the command line by the names that they have as arguments: "--time-limit" is time_limit.
std::string in_words_of_python(const std::string& text) {
  static const std::map<std::string, std::string> names = {
      {"--backend", "backend"},       {"--budget", "budget"},   {"--deadline", "deadline"},
      {"--device", "device"},         {"--engine", "engine"},   {"--evidence", "evidence"},
      {"--for", "trainer"},           {"--gpus", "gpus"},       {"--left-out", "left_out"},
      {"--costs", "costs"},           {"--method", "method"},   {"--model", "model"},
      {"--nodes", "nodes"},           {"--only", "only"},       {"--over", "over"},
      {"--objective", "objective"},   {"--plan", "plan"},       {"--sequence", "sequence"},
      {"--start", "start"},           {"--tokens", "tokens"},   {"--tolerance", "tolerances"},
      {"--vocabulary", "vocabulary"}, {"--without", "without"}, {"panpipe list", "shipped"},
      {"panpipe fit", "fit"}};
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const auto stands_here = [&](const auto& name) {
      const std::size_t end = i + name.first.size();
      const bool whole = end == text.size() || (std::isalnum(static_cast<unsigned char>(text[end])) == 0 && text[end] != '-');
      return whole && text.compare(i, name.first.size(), name.first) == 0;
    };
    const auto found = std::find_if(names.begin(), names.end(), stands_here);
    made += found == names.end() ? text.substr(i, 1) : found->second;
    i += found == names.end() ? 1 : found->first.size();
  }
  return made;
}

// (message, remedy, file, line, column, key, text)
nb::tuple parts_of(const Diagnostic& given) {
  // Overrides are of the command line only there.
  const Diagnostic fault = given.override_text.empty() ? given : shown_at(given, shown_override(given.override_text));
  // A text without a place is about the call; what a file holds is not touched.
  const auto words = [&](const std::string& text) {
    return fault.place.empty() && fault.file.empty() ? in_words_of_python(text) : text;
  };
  const std::string help = words(part_behind(fault.text, "\n  help: ", true));
  std::string key = part_behind(fault.text, "\n  at ", false);
  std::string message = fault.message;
  if (const std::size_t at = message.find("\n  help: "); at != std::string::npos) message.resize(at);
  return nb::make_tuple(words(message), help, given.override_text.empty() ? fault.file : std::string("set"), fault.line,
                        fault.column, key, words(fault.text));
}

void raise(const char* kind, const nb::object& arguments) {
  const nb::object type = nb::module_::import_("panpipe._errors").attr(kind);
  PyErr_SetObject(type.ptr(), arguments.ptr());
}

void raise_input_error(const InputError& error) {
  nb::list diagnostics;
  std::string text;
  for (const Diagnostic& fault : error.diagnostics()) {
    const nb::tuple parts = parts_of(fault);
    text += (text.empty() ? "" : "\n") + nb::cast<std::string>(nb::object(parts[6]));
    diagnostics.append(parts);
  }
  raise("InputError", nb::make_tuple(text, nb::module_::import_("panpipe._errors").attr("diagnostics_of")(diagnostics)));
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const InputError& error) {
    raise_input_error(error);
  } catch (const Stopped& error) {  // in a thread whose caller was interrupted
    raise("NoAnswer", nb::make_tuple(std::string(error.what())));
  } catch (const NoAnswer& error) {
    raise("NoAnswer", nb::make_tuple(std::string(error.what())));
  } catch (const MachineError& error) {
    raise("MachineError", nb::make_tuple(std::string(error.what())));
  } catch (const InternalError& error) {
    raise("InternalError",
          nb::make_tuple(fmt::format("this is a bug in panpipe {}, please report it: {}", kVersion, error.what())));
  }
}

// The shipped data and the module that simulates are found as the programs find them, from _prefix beside this module.
void find_prefix() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&find_prefix), &here) == 0 || here.dli_fname == nullptr) return;
  std::error_code ignored;
  const auto bin = std::filesystem::absolute(here.dli_fname, ignored).parent_path() / "_prefix" / "bin";
  set_program_folder(bin);
}

// A prediction takes a few MB for a millisecond. By default the allocator hands that back to the system after each call and takes
// it again, page by page, which doubles the time of a call: so it keeps up to 16 MB.
void keep_memory() {
#ifdef __GLIBC__
  constexpr int kKept = 16 << 20;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace
}  // namespace panpipe::python

NB_MODULE(_core, module) {
  using namespace panpipe::python;
  find_prefix();
  keep_memory();
  // An interpreter that ends does not clear what other packages still refer to (torch does): that is no leak of a user's.
  nb::set_leak_warnings(false);
  nb::register_exception_translator(translate);
  module.attr("version") = panpipe::kVersion;
  bind_arena(module);
  bind_tables(module);
  bind_stop(module);
  bind_predictions(module);
  bind_planning(module);
  bind_documents(module);
  bind_measured(module);
  bind_runs(module);
  bind_schedules(module);
}
