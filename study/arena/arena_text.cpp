// The arena as a table for people and as a document.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text/json_writer.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/text_table.hpp"
#include "study/arena/arena_tables.hpp"

namespace panpipe::study {

std::string semantics_letters(const Transfers& transfers) {
  std::string letters;
  for (std::size_t i = 0; i < kTransferSemantics.size(); ++i)
    letters += !transfers.finishes[i]                                 ? '-'
               : kTransferSemantics[i] == TransferSemantics::Blocking ? 'B'
               : name_of(kTransferSemantics[i])[0] == 'b' ? (kTransferSemantics[i] == TransferSemantics::Buffered ? 'u' : 'g')
                                                          : 'a';
  return letters;
}

std::vector<double> memory_limits(int ranks) { return {0.5 * ranks, 0.75 * ranks, 1.0 * ranks, 2.0 * ranks}; }

std::string semantics_text(const Judged& judged) {
  std::string text;
  for (const Transfers& transfers : judged.transfers) text += (text.empty() ? "" : "/") + semantics_letters(transfers);
  return text;
}

std::string heading_of(const Arena& arena, const Round& round) {
  return fmt::format("{} ranks, {} microbatches; {} ({}: {})", arena.request.ranks, arena.request.microbatches,
                     costs_text(round.ratio), round.ratio.name, round.ratio.origin);
}

std::string costs_text(const CostRatio& ratio) {
  std::string text = fmt::format("F:I:W = 1:{:g}:{:g}", ratio.I, ratio.W);
  if (ratio.head > 0) text += fmt::format(", head {:g}", ratio.head);
  if (ratio.copy != 1) text += fmt::format(", copy {:g}", ratio.copy);
  if (!ratio.lengths.empty()) text += fmt::format(", lengths {:g}", fmt::join(ratio.lengths, "/"));
  return text;
}

std::string remark_on(const Judged& judged) {
  std::vector<std::string> parts;
  if (judged.on_host) parts.emplace_back("weights on the host");
  if (judged.weights > 1)
    parts.push_back(judged.weights == 2 ? "weights twice" : fmt::format("weights {} times", judged.weights));
  if (judged.staleness > 0)
    parts.push_back(fmt::format("stale by {} update{}", judged.staleness, judged.staleness > 1 ? "s" : ""));
  if (!judged.flushes) parts.emplace_back("step: its period");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string time_text(const ClusterTime& time) {
  if (!time.refused.empty()) return "-";
  return time.simulated_s < 1 ? fmt::format("{:#.4g} ms", 1e3 * time.simulated_s) : fmt::format("{:#.4g} s", time.simulated_s);
}

namespace {

std::string winners_text(const Arena& arena, const Round& round) {
  std::vector<TextColumn> columns = {"<fastest within", "<on idle, free links"};
  for (const std::string& cluster : arena.request.clusters) columns.emplace_back("<" + cluster);
  TextTable table(std::move(columns), 0);
  for (const double limit : memory_limits(arena.request.ranks)) {
    std::vector<std::string> row = {fmt::format("{:g} microbatches a rank", limit)};
    for (int cluster = -1; cluster < static_cast<int>(arena.request.clusters.size()); ++cluster) {
      const int best = fastest_within(arena, round, limit, cluster);
      row.push_back(best < 0 ? "none" : arena.request.entrants[best].name);
    }
    table.row(std::move(row));
  }
  return table.text();
}

std::string table_of(const Arena& arena, const Round& round) {
  std::vector<TextColumn> columns = {"<schedule", "<", "stages", "held", "step", "bubble", "over bound", "<transfers"};
  for (const std::string& cluster : arena.request.clusters) columns.emplace_back(cluster);
  TextTable table(std::move(columns), 0);
  std::string besides;
  for (const std::size_t i : ranking(arena, round)) {
    const Judged& judged = round.judged[i];
    const std::string& name = arena.request.entrants[i].name;
    if (!judged.legal()) {
      besides += fmt::format("{}: {}\n", name, judged.refused.empty() ? "not legal: " + judged.faults.front() : judged.refused);
      for (std::size_t f = 1; f < std::min<std::size_t>(judged.faults.size(), 8); ++f)
        besides += fmt::format("  {}\n", judged.faults[f]);
      continue;
    }
    const std::string remark = remark_on(judged);
    std::vector<std::string> row = {name + (remark.empty() ? "" : " (" + remark + ")"),
                                    on_front(round, judged) ? "*" : "",
                                    std::to_string(judged.stages_per_rank),
                                    fmt::format("{:.4g}", judged.held),
                                    fmt::format("{:.5g}", judged.makespan),
                                    fmt::format("{:.2f} %", 100 * judged.bubble),
                                    fmt::format("{:.2f} %{}", 100 * judged.over_bound(), judged.bound_in_memory ? "" : "~"),
                                    semantics_text(judged)};
    for (const ClusterTime& time : judged.on) row.push_back(time_text(time));
    table.row(std::move(row));
  }
  const bool none = besides.size() > 0 &&
                    std::none_of(round.judged.begin(), round.judged.end(), [](const Judged& judged) { return judged.legal(); });
  return (none ? "" : table.text()) + besides;
}

void write_cluster_times(JsonWriter& out, const Arena& arena, const Judged& judged) {
  out.list("clusters");
  for (std::size_t c = 0; c < judged.on.size(); ++c) {
    const ClusterTime& time = judged.on[c];
    out.object().field("cluster", arena.request.clusters[c]);
    if (time.refused.empty())
      out.field("estimated_s", time.estimated_s).field("simulated_s", time.simulated_s);
    else
      out.field("refused", time.refused);
    out.end();
  }
  out.end();
}

void write_judged(JsonWriter& out, const Arena& arena, const Round& round, const Judged& judged) {
  out.object().field("schedule", arena.request.entrants[judged.entrant].name).field("legal", judged.legal());
  if (!judged.refused.empty()) out.field("refused", judged.refused);
  if (!judged.faults.empty()) out.field("faults", judged.faults);
  if (judged.legal()) {
    out.field("stages_per_rank", judged.stages_per_rank).field("weights", judged.weights);
    if (judged.on_host) out.field("weights_on_host", true);
    if (!judged.flushes) out.field("period", true).field("staleness", judged.staleness);
    out.field("makespan", judged.makespan).field("bubble", judged.bubble);
    out.field("held", judged.held).field("held_least", judged.held_least);
    out.field("bound", judged.bound).field("bound_in_memory", judged.bound_in_memory).field("over_bound", judged.over_bound());
    out.field("on_front", on_front(round, judged));
    const auto write_transfers = [&](const Transfers& transfers) {
      out.field("receives", transfers.receives);
      for (std::size_t i = 0; i < kTransferSemantics.size(); ++i)
        out.field(name_of(kTransferSemantics[i]), transfers.finishes[i]);
      if (!transfers.deadlock.empty()) out.field("deadlock", transfers.deadlock);
    };
    out.objects("transfers", judged.transfers, write_transfers, JsonLayout::OneLine);
    write_cluster_times(out, arena, judged);
  }
  out.end();
}

// Without `cluster`: on free links; without `schedule`: none holds so little.
void write_winners(JsonWriter& out, const Arena& arena, const Round& round) {
  out.list("winners", JsonLayout::Lines);
  for (const double limit : memory_limits(arena.request.ranks))
    for (int cluster = -1; cluster < static_cast<int>(arena.request.clusters.size()); ++cluster) {
      out.object().field("memory", limit);
      if (cluster >= 0) out.field("cluster", arena.request.clusters[cluster]);
      if (const int best = fastest_within(arena, round, limit, cluster); best >= 0)
        out.field("schedule", arena.request.entrants[best].name);
      out.end();
    }
  out.end();
}

}  // namespace

std::string to_table(const Arena& arena) {
  std::string text;
  bool any = false;
  for (const Round& round : arena.rounds) {
    if (!text.empty()) text += "\n";
    text += heading_of(arena, round) + "\n" + table_of(arena, round);
    if (std::none_of(round.judged.begin(), round.judged.end(), [](const Judged& judged) { return judged.legal(); })) continue;
    text += "\n" + winners_text(arena, round);
    any = true;
  }
  if (!arena.request.left_out.empty())
    text += fmt::format("\ntoo small for {} ranks, and left out: {}; --clusters names others\n", arena.request.ranks,
                        fmt::join(arena.request.left_out, ", "));
  if (!any) return text;
  return text +
         "\nheld: microbatches whose activations the fullest rank holds; step: in forwards of a rank's share; *: nothing is as "
         "short\n"
         "and holds no more (stale gradients aside); over bound: no order of this placement in this memory is shorter than the "
         "bound (~: in any "
         "memory);\n"
         "transfers, early/late receives: finishes as a asynchronous, u buffered, B blocking, g batched, - deadlocks; clusters: "
         "the\n"
         "step, simulated with shared links\n";
}

std::string to_json(const Arena& arena) {
  JsonWriter out;
  out.object(JsonLayout::Lines).field("schema", "panpipe-arena/1");
  out.field("ranks", arena.request.ranks).field("microbatches", arena.request.microbatches);
  out.field("clusters", arena.request.clusters);
  if (!arena.request.left_out.empty()) out.field("left_out", arena.request.left_out);
  out.list("rounds", JsonLayout::Lines);
  for (const Round& round : arena.rounds) {
    out.object(JsonLayout::Lines).field("costs", round.ratio.name).field("origin", round.ratio.origin);
    out.field("F", 1.0).field("I", round.ratio.I).field("W", round.ratio.W);
    out.field("head", round.ratio.head).field("copy", round.ratio.copy);
    if (!round.ratio.lengths.empty()) out.field("lengths", round.ratio.lengths);
    out.field("forward_flops", round.ratio.work.base()).field("hand_over_bytes", round.ratio.bytes.base());
    out.list("schedules", JsonLayout::Lines);
    for (const std::size_t i : ranking(arena, round)) write_judged(out, arena, round, round.judged[i]);
    out.end();
    write_winners(out, arena, round);
    out.end();
  }
  return out.end().end().finish() + "\n";
}

}  // namespace panpipe::study
