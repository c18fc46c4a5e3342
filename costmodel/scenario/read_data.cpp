// Reads `data:`.
#include <fmt/format.h>

#include "base/input/declare.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

Key data_key() {
  return declare(
      "data", "the data of a training run: exactly one of `synthetic`, `tensors`, `tokens`",
      Inside{declare("synthetic", "drawn by `seed`; can only be `true`", form::truth(), Example{"true"}),
             declare("tensors", "tensors named as the model's inputs; the first dimension is the sample", form::file()),
             declare("tokens", "token ids, one after another", form::file()),
             declare("width", "bits of a token, 16 or 32", form::whole(1), Otherwise{"16, or an index's"}, Example{"16"}),
             declare("shuffle", "each pass over the data in a different order, determined by `seed`", form::truth(),
                     Fallback{"false"}),
             declare("validation", "the file for evaluations, of the same kind as the training data", form::file(),
                     Otherwise{"none"}),
             declare("held_out",
                     "instead of `validation`: the share at the end of the data that evaluations use and training does not",
                     form::share(), Fallback{"0 %"}, Example{"5 %"})},
      Otherwise{"`{synthetic: true}`"}, Page{"training.md#data"}, ActsOn::Training, InExports::Stated);
}

namespace {

// Keys of `data` in addition to its source, which only files have.
void read_about_files(MapReader& reader, DataRequest& data) {
  ReadLog& log = reader.log();
  const bool synthetic = data.kind == DataRequest::Kind::Synthetic;
  const Node* width = reader.find("width");
  const Node* shuffle = reader.find("shuffle");
  const Node* validation = reader.find("validation");
  const Node* held_out = reader.find("held_out");
  for (const Node* node : {width, shuffle, validation, held_out})
    if (synthetic && node != nullptr)
      log.error(*node, "synthetic data are drawn sample by sample, and there is no file of them",
                "name a file: {tensors: FILE} or {tokens: FILE}");
  if (synthetic) return;
  if (width != nullptr && data.kind == DataRequest::Kind::Tensors) {
    log.error(*width, "'width' is of tokens; a file of tensors says how wide its numbers are");
  } else if (width != nullptr) {
    data.width = read_integer(*width, log, 1).value_or(0);
    if (data.width != 0 && data.width != 16 && data.width != 32)
      log.error(*width, fmt::format("tokens have 16 or 32 bits, not {}", data.width));
  }
  if (shuffle != nullptr) data.shuffle = read_boolean(*shuffle, log).value_or(false);
  if (validation != nullptr) data.validation = read_file_reference(*validation, log, "file of validation data").value_or("");
  if (held_out == nullptr) return;
  const std::optional<double> share = read_fraction(*held_out, log);
  data.held_out = share.value_or(0);
  if (validation != nullptr)
    log.error(*held_out, fmt::format("'held_out' and 'validation' ({}) exclude each other", origin_of(*validation)),
              "keep one of the two", code::kConflict);
  else if (share && (*share <= 0 || *share >= 1))
    log.error(*held_out, "what is held out must be above 0 % and below 100 %", "as in 'held_out: 5 %'");
}

}  // namespace

DataRequest read_data(MapReader& scenario) {
  DataRequest data;
  const Node* node = scenario.find("data");
  if (node == nullptr) return data;
  ReadLog& log = scenario.log();
  MapReader reader(*node, log);
  const Node* synthetic = reader.find("synthetic");
  const Node* tensors = reader.find("tensors");
  const Node* tokens = reader.find("tokens");
  int given = 0, about = 0;
  for (const Node* source : {synthetic, tensors, tokens}) given += source != nullptr;
  for (const char* key : {"width", "shuffle", "validation", "held_out"}) about += reader.find(key) != nullptr;
  reader.finish();
  if (node->kind != NodeKind::Map) return data;
  if (given != 1) {
    if (given + about == static_cast<int>(node->entries.size()))  // else unknown keys were complained about
      log.error(*node, node->entries.empty() ? "'data' is empty" : "'data' takes exactly one source",
                "write {synthetic: true}, {tensors: FILE} or {tokens: FILE}");
    return data;
  }
  if (synthetic != nullptr) {
    if (const auto value = read_boolean(*synthetic, log); value && !*value)
      log.error(*synthetic, "'synthetic' can only be true", "leave 'data' out, or name a file of tensors or tokens");
  } else {
    data.kind = tensors != nullptr ? DataRequest::Kind::Tensors : DataRequest::Kind::Tokens;
    const Node& file = tensors != nullptr ? *tensors : *tokens;
    data.file = read_file_reference(file, log, tensors != nullptr ? "file of tensors" : "file of tokens").value_or("");
  }
  read_about_files(reader, data);
  return data;
}

}  // namespace panpipe
