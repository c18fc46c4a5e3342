// Reads `evidence:`.
#include <fmt/format.h>

#include "base/input/declare.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

Key evidence_key() {
  return declare(
      "evidence",
      "measurements of this machine and trainer, which narrow the interval of a prediction: logs, tables of runs, tables of "
      "nccl-tests, traces, profiles, measured devices",
      items(form::file(), Inside{declare("rows", "a table of runs", form::file()),
                                 declare("ids", "of a table: the rows that count", items(form::text()), Otherwise{"all rows"}),
                                 declare("log", "a training log", form::file()),
                                 declare("job", "of a log: the scenario that it was measured with", form::file(),
                                         Otherwise{"as the log states it, else this scenario"})}),
      Otherwise{"none"}, Page{"evidence.md"}, InExports::Apart);
}

namespace {

void read_piece(const Node& node, ReadLog& log, EvidenceRequest& request) {
  if (node.kind != NodeKind::Map) {
    request.file = read_file_reference(node, log, "file of evidence").value_or("");
    return;
  }
  MapReader reader(node, log);
  const Node* rows = reader.find("rows");
  const Node* ids = reader.find("ids");
  const Node* training = reader.find("log");
  const Node* job = reader.find("job");
  reader.finish();
  if ((rows == nullptr) == (training == nullptr)) {
    log.error(node, "a piece of evidence names one file", "as in {rows: runs.csv, ids: [a, b]} or {log: run.log, job: job.yaml}");
    return;
  }
  if (ids != nullptr && rows == nullptr) log.error(*ids, "'ids' are of a table of runs, and this is a log");
  if (job != nullptr && training == nullptr) log.error(*job, "'job' is of a log, and the rows of a table state their own");
  request.file = read_file_reference(rows != nullptr ? *rows : *training, log, "file of evidence").value_or("");
  if (job != nullptr) request.job = read_file_reference(*job, log, "scenario").value_or("");
  if (ids == nullptr) return;
  if (ids->kind != NodeKind::Sequence || ids->items.empty()) {
    log.error(*ids, "'ids' is a list of the rows that count", "as in 'ids: [a, b]'");
    return;
  }
  for (const auto& id : ids->items)
    if (const auto text = read_string(*id, log)) request.ids.push_back(*text);
}

}  // namespace

std::vector<EvidenceRequest> read_evidence(MapReader& scenario) {
  std::vector<EvidenceRequest> requests;
  const Node* node = scenario.find("evidence");
  if (node == nullptr || node->kind == NodeKind::Null) return requests;
  if (node->kind != NodeKind::Sequence) {
    scenario.log().error(*node, "'evidence' is a list of files", "as in 'evidence: [run.log]'");
    return requests;
  }
  for (const auto& item : node->items) {
    EvidenceRequest& request = requests.emplace_back();
    request.key = fmt::format("evidence[{}]", requests.size() - 1);
    read_piece(*item, scenario.log(), request);
  }
  return requests;
}

}  // namespace panpipe
