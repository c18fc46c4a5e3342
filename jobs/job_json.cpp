#include "jobs/job_json.hpp"

#include "base/text/json_writer.hpp"

namespace panpipe::jobs {
namespace {

void write_texts(JsonWriter& json, const char* key, const std::vector<std::string>& texts) {
  json.list(key, JsonLayout::Lines);
  for (const std::string& text : texts) json.value(text);
  json.end();
}

// Each word, and the bytes of the file that hold it, where one literal does.
void write_launch(JsonWriter& json, const ImportedJob& job) {
  json.list("launch", JsonLayout::Lines);
  for (const ShellWord& word : job.launch) {
    json.object().field("text", word.text).field("known", !word.expands);
    if (const auto place = word.place())
      json.field("file", place->file).field("line", place->line).field("begin", place->begin).field("end", place->end);
    json.end();
  }
  json.end();
}

}  // namespace

std::string to_json(const ImportedJob& job) {
  JsonWriter json;
  json.object(JsonLayout::Lines).field("schema", "panpipe-import/1");
  json.field("trainer", job.trainer).field("source", job.source).list("unknown", JsonLayout::Lines);
  for (const UnknownName& unknown : job.unknown)
    json.object().field("name", unknown.name).field("line", unknown.line).field("file", unknown.file).end();
  json.end().list("values", JsonLayout::Lines);
  for (const ImportedValue& value : job.values)
    json.object().field("key", value.key).field("value", value.value).field("origin", value.origin).end();
  json.end();
  write_texts(json, "assumptions", job.assumptions);
  write_texts(json, "not_modelled", job.not_modelled);
  write_texts(json, "not_understood", job.not_understood);
  write_texts(json, "without_effect", job.without_effect);
  write_launch(json, job);
  return json.end().finish();
}

}  // namespace panpipe::jobs
