// The calls that a page makes: JSON in, JSON out. Each is a function over app/, in a file of its own; engine.cpp has the table.
// web/README.md lists keys and answers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/predict.hpp"
#include "costmodel/scenario/scenario.hpp"
#include "present/picture/picture_data.hpp"

namespace panpipe::web {

using Json = nlohmann::ordered_json;

// One request, whose files lie in the current folder as long as the object lives. Getters throw InputError for a value of another
// type than is asked for, with the key; an absent key is the fallback.
class Call {
 public:
  // Writes `files` and the text `scenario` under `name`. Throws InputError for a name that leads out of the folder.
  explicit Call(const Json& request);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool has(const std::string& key) const { return request_.contains(key); }
  const Json& at(const std::string& key) const;  // throws InputError if it is absent
  std::string text(const std::string& key, const std::string& fallback = "") const;
  double real(const std::string& key, double fallback) const;
  int number(const std::string& key, int fallback) const;
  bool truth(const std::string& key) const;  // absent: false
  std::vector<std::string> texts(const std::string& key) const;

  std::string name() const;  // of the scenario: its file
  std::vector<std::string> settings() const { return texts("settings"); }
  Scenario load() const;

  // What the request asks about, whatever it wants to know of it; empty where the answer depends on files that it does not hold.
  std::string question() const;

 private:
  void write(const std::string& name, const std::string& contents);

  const Json& request_;
  std::vector<std::string> written_;
};

// An answer, part by part. Documents and pictures are JSON already: they are not read again.
class Answer {
 public:
  Answer& add(const std::string& key, const Json& value) { return add_json(key, value.dump()); }
  Answer& add_json(const std::string& key, const std::string& json);
  Answer& add_picture(const present::PictureData& picture);  // at most one in an answer
  std::string json() const { return (text_.empty() ? "{" : text_) + "}"; }
  const std::string& bytes() const { return bytes_; }  // of the picture

 private:
  std::string text_, bytes_;
};

// Of a document's libraries.
app::NamesAndValues libraries();

// A predicted step of a call, by its `engine`.
std::shared_ptr<const app::PredictedStep> predicted(const Call& call);

Answer answer_lists(const Call& call);
Answer answer_predict(const Call& call);
Answer answer_view(const Call& call);
Answer answer_compare(const Call& call);
Answer answer_plan(const Call& call);
Answer answer_schedule(const Call& call);
Answer answer_arena(const Call& call);
Answer answer_links(const Call& call);
Answer answer_read(const Call& call);

// Tells the page how far a call is: Module.onProgress(text), where the page has set it.
void report_progress(const Json& state);

}  // namespace panpipe::web
