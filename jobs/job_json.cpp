#include "jobs/job_json.hpp"

#include "base/text/json_writer.hpp"

namespace panpipe::jobs {
namespace {

void write_texts(JsonWriter& json, const char* key, const std::vector<std::string>& texts) {
  json.key(key).list(JsonLayout::Lines);
  for (const std::string& text : texts) json.value(text);
  json.end();
}

void write_values(JsonWriter& json, const ImportedJob& job) {
  json.key("values").list(JsonLayout::Lines);
  for (const ImportedValue& value : job.values) {
    json.object();
    json.key("key").value(value.key);
    json.key("value").value(value.value);
    json.key("origin").value(value.origin);
    json.end();
  }
  json.end();
}

void write_unknown(JsonWriter& json, const ImportedJob& job) {
  json.key("unknown").list(JsonLayout::Lines);
  for (const UnknownName& unknown : job.unknown) {
    json.object();
    json.key("name").value(unknown.name);
    json.key("line").value(unknown.line);
    json.key("file").value(unknown.file);
    json.end();
  }
  json.end();
}

// Each word, and the bytes of the file that hold it, where one literal does.
void write_launch(JsonWriter& json, const ImportedJob& job) {
  json.key("launch").list(JsonLayout::Lines);
  for (const ShellWord& word : job.launch) {
    json.object();
    json.key("text").value(word.text);
    json.key("known").value(!word.expands);
    if (const auto place = word.place()) {
      json.key("file").value(place->file);
      json.key("line").value(place->line);
      json.key("begin").value(static_cast<long long>(place->begin));
      json.key("end").value(static_cast<long long>(place->end));
    }
    json.end();
  }
  json.end();
}

}  // namespace

std::string to_json(const ImportedJob& job) {
  JsonWriter json;
  json.object(JsonLayout::Lines);
  json.field("schema", "panpipe-import/1");
  json.key("trainer").value(job.trainer);
  json.key("source").value(job.source);
  write_unknown(json, job);
  write_values(json, job);
  write_texts(json, "assumptions", job.assumptions);
  write_texts(json, "not_modelled", job.not_modelled);
  write_texts(json, "not_understood", job.not_understood);
  write_texts(json, "without_effect", job.without_effect);
  write_launch(json, job);
  json.end();
  return json.finish();
}

}  // namespace panpipe::jobs
