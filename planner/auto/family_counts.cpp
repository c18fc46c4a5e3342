// Counts of each family's order, as its generator in schedule/ writes it.
#include "planner/auto/family_counts.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "schedule/schedule.hpp"

namespace panpipe::planner {
namespace {

bool always(int, int, int) { return true; }
// Turns of M / max(1, M div P) microbatches must cut the microbatches evenly.
bool in_turns(int ranks, int, int microbatches) { return microbatches % std::max(1, microbatches / ranks) == 0; }
bool whole_turns(int ranks, int, int microbatches) { return microbatches % ranks == 0; }
bool whole_short_turns(int ranks, int, int microbatches) { return microbatches % ((ranks + 1) / 2) == 0; }
bool waves(int, int chunks, int) { return chunks % 2 == 0; }
bool even_chains(int ranks, int, int microbatches) { return ranks % 2 == 0 && microbatches % 2 == 0; }
bool fills_two_chains(int ranks, int chunks, int microbatches) {
  return even_chains(ranks, chunks, microbatches) && microbatches >= 2 * ranks;
}
bool fills_stp(int ranks, int, int microbatches) { return microbatches >= 3 * ranks - 1; }
bool fills_dualpipe(int ranks, int, int microbatches) { return microbatches >= 2 * ranks; }

int none_after(const RankPlace&) { return 0; }

// --- one stage a rank ---
int moments_gpipe(const RankPlace& place, Moment* out) {
  out[0] = {};
  out[0].held[0] = place.microbatches;
  out[0].forward = out[0].backward = 0;
  return 1;
}

int moments_1f1b(const RankPlace& place, Moment* out) {
  out[0] = {};
  out[0].held[0] = std::min(place.microbatches, place.ranks - place.rank);
  out[0].forward = out[0].backward = 0;
  return 1;
}

// Groups of two microbatches instead of one.
int moments_kfkb(const RankPlace& place, Moment* out) {
  out[0] = {};
  out[0].held[0] = std::min(place.microbatches, 2 * (place.ranks - place.rank));
  out[0].forward = out[0].backward = 0;
  return 1;
}

// ZB-H1 and ZB-H2: `depth` (p-1-r) forwards ahead, weight gradients `depth` r behind.
int moments_zb(const RankPlace& place, int depth, Moment* out) {
  const int m = place.microbatches, ahead = depth * (place.ranks - 1 - place.rank), behind = depth * place.rank;
  const auto at = [&](int iteration) {  // the forward, if there is one, and the input gradient of it have run
    Moment moment;
    moment.held[0] = std::min(ahead + 1, m - iteration);
    moment.weights = std::min(iteration, behind);
    moment.forward = ahead + iteration < m ? 0 : -1;
    moment.backward = 0;
    return moment;
  };
  out[0] = at(std::max(0, m - ahead - 1));  // the last forward
  out[0].forward = 0;
  out[1] = at(std::min(behind, m - 1));  // as many weight gradients as ever wait
  return 2;
}
int moments_zb_h1(const RankPlace& place, Moment* out) { return moments_zb(place, 1, out); }
int moments_zb_h2(const RankPlace& place, Moment* out) { return moments_zb(place, 2, out); }
int after_zb_h1(const RankPlace& place) { return std::min(place.microbatches, place.rank + 1); }
int after_zb_h2(const RankPlace& place) { return std::min(place.microbatches, 2 * place.rank + 1); }

// --- stages in turns: group after group, stage after stage, microbatch after microbatch ---
int group_of(const RankPlace& place) { return place.microbatches / std::max(1, place.microbatches / place.ranks); }

// Of the first `count` turns, how many are of a stage.
int turns_of(int count, int group, int chunks, int chunk) {
  const int round = group * chunks;
  return count / round * group + std::clamp(count % round - chunk * group, 0, group);
}

int chunk_of_turn(int turn, int group, int chunks) { return turn / group % chunks; }

// `ahead` forwards before the first backward; a backward of turn k is of the stage chunks - 1 - that of forward k.
int moments_in_turns(const RankPlace& place, int group, int ahead, int lag, Moment* out) {
  const int v = place.chunks, total = place.microbatches * v;
  ahead = std::min(ahead, total);
  int count = 0;
  for (const int back : {0, std::min(lag, total - ahead - 1), std::min(group * (v - 1), total - ahead - 1)}) {
    if (back < 0 || (count > 0 && back == 0)) continue;
    const int forwards = std::min(ahead + back + 1, total);
    Moment& moment = out[count++] = {};
    for (int c = 0; c < v; ++c)
      moment.held[static_cast<std::size_t>(c)] = turns_of(forwards, group, v, c) - turns_of(back, group, v, v - 1 - c);
    moment.weights = std::min(back, lag);
    moment.forward = chunk_of_turn(forwards - 1, group, v);
    moment.backward = v - 1 - chunk_of_turn(back, group, v);
  }
  if (count == 0) {  // everything runs ahead
    Moment& moment = out[count++] = {};
    for (int c = 0; c < v; ++c) moment.held[static_cast<std::size_t>(c)] = place.microbatches;
    moment.forward = moment.backward = v - 1;
  }
  return count;
}

int moments_interleaved(const RankPlace& place, Moment* out) {
  return moments_in_turns(place, group_of(place), 2 * (place.ranks - 1 - place.rank) + (place.chunks - 1) * group_of(place), 0,
                          out);
}
int moments_interleaved_zb(const RankPlace& place, Moment* out) {
  return moments_in_turns(place, group_of(place), place.ranks - 1 - place.rank + (place.chunks - 1) * group_of(place), place.rank,
                          out);
}
int after_interleaved_zb(const RankPlace& place) { return std::min(place.microbatches * place.chunks, place.rank + 1); }
int moments_group_interleaved(const RankPlace& place, Moment* out) {
  return moments_in_turns(place, place.ranks, place.ranks - 1 - place.rank + (place.chunks - 1) * place.ranks, 0, out);
}
int moments_gis_h(const RankPlace& place, Moment* out) {
  const int group = (place.ranks + 1) / 2;
  return moments_in_turns(place, group, place.ranks - 1 - place.rank + (place.chunks - 1) * group, 0, out);
}
int after_group_interleaved(const RankPlace&) { return 1; }

int moments_bfs(const RankPlace& place, Moment* out) {
  out[0] = {};
  for (int c = 0; c < place.chunks; ++c) out[0].held[static_cast<std::size_t>(c)] = place.microbatches;
  out[0].forward = out[0].backward = place.chunks - 1;
  return 1;
}

// --- a V ---
Moment vee(const RankPlace& place, int first, int second, int pass) {
  Moment moment;
  moment.held[0] = std::min(first, place.microbatches);
  moment.held[1] = std::min(second, place.microbatches);
  moment.forward = moment.backward = pass;
  return moment;
}
int moments_zb_v(const RankPlace& place, Moment* out) {
  out[0] = vee(place, 2 * place.ranks - place.rank - 1, place.rank + 1, 1);
  return 1;
}
int after_zb_v(const RankPlace& place) { return std::min(2 * place.microbatches, 2 * place.rank + 1); }
int moments_stp(const RankPlace& place, Moment* out) {
  out[0] = vee(place, 2 * place.ranks, place.rank + 1, -1);
  return 1;
}
int after_stp(const RankPlace& place) { return 2 * place.rank; }
int moments_dualpipe_v(const RankPlace& place, Moment* out) {
  out[0] = vee(place, 2 * place.ranks - place.rank - 1, place.rank + 1, 1);
  return 1;
}
int all_after(const RankPlace& place) { return place.chunks * place.microbatches; }

// Hanayo: F of stage s and microbatch j of the first P in slot s + 2j, its B in slot 2vP-1-s + 2j. The rank's first backward.
int moments_hanayo(const RankPlace& place, Moment* out) {
  const int v = place.chunks, p = place.ranks;
  const auto stage = [&](int c) { return c * p + (c % 2 == 0 ? place.rank : p - 1 - place.rank); };
  const int slot = 2 * v * p - 1 - stage(v - 1);
  out[0] = {};
  for (int c = 0; c < v; ++c)
    out[0].held[static_cast<std::size_t>(c)] = std::min({place.microbatches, p, (slot - stage(c) + 1) / 2});
  out[0].backward = v - 1;
  return 1;
}

// 1F1B-V: its passes find their places one by one, so they are counted in the order itself. What a rank holds does not rise any
// more after some microbatches.
std::vector<Moment> walk_1f1b_v(int ranks, int microbatches) {
  const Schedule schedule = make_schedule("1f1b-v", ranks, microbatches);
  std::vector<Moment> fullest(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < fullest.size(); ++r) {
    Moment now;
    int most = 0;
    for (const Action& action : schedule.order[r]) {
      const int chunk = action.stage < ranks ? 0 : 1;
      std::int32_t& held = now.held[static_cast<std::size_t>(chunk)];
      held += action.kind == ActionKind::F ? 1 : -1;
      if (now.held[0] + now.held[1] <= most) continue;
      most = now.held[0] + now.held[1];
      fullest[r] = now;
      fullest[r].forward = chunk;
    }
  }
  return fullest;
}
int moments_1f1b_v(const RankPlace& place, Moment* out) {
  static std::mutex lock;
  static std::map<std::pair<int, int>, std::vector<Moment>> known;
  const std::pair<int, int> key = {place.ranks, std::min(place.microbatches, 4 * place.ranks)};
  const std::lock_guard guard(lock);
  auto found = known.find(key);
  if (found == known.end()) found = known.emplace(key, walk_1f1b_v(key.first, key.second)).first;
  out[0] = found->second[static_cast<std::size_t>(place.rank)];
  return 1;
}

int no_moments(const RankPlace&, Moment*) { return 0; }

}  // namespace

const std::vector<FamilyForm>& forms() {
  static const std::vector<FamilyForm> table = {
      // name, placement, split, woven, own stages per rank, exists, moments, weight gradients at the end
      {"gpipe", StagePlacement::Line, false, false, false, always, moments_gpipe, none_after},
      {"1f1b", StagePlacement::Line, false, false, false, always, moments_1f1b, none_after},
      {"kfkb", StagePlacement::Line, false, false, false, always, moments_kfkb, none_after},
      {"zb-h1", StagePlacement::Line, true, false, false, always, moments_zb_h1, after_zb_h1},
      {"zb-h2", StagePlacement::Line, true, false, false, always, moments_zb_h2, after_zb_h2},
      {"interleaved-1f1b", StagePlacement::Loop, false, false, false, in_turns, moments_interleaved, none_after},
      {"looped-bfs", StagePlacement::Loop, false, false, false, always, moments_bfs, none_after},
      {"interleaved-zero-bubble", StagePlacement::Loop, true, false, false, in_turns, moments_interleaved_zb,
       after_interleaved_zb},
      {"group-interleaved", StagePlacement::Loop, true, false, false, whole_turns, moments_group_interleaved,
       after_group_interleaved},
      {"gis-h", StagePlacement::Loop, true, false, false, whole_short_turns, moments_gis_h, after_group_interleaved},
      {"hanayo", StagePlacement::Vee, false, false, false, waves, moments_hanayo, none_after},
      {"1f1b-v", StagePlacement::Vee, false, false, true, always, moments_1f1b_v, none_after},
      {"zb-v", StagePlacement::Vee, true, false, true, always, moments_zb_v, after_zb_v},
      {"stp", StagePlacement::Vee, true, true, true, fills_stp, moments_stp, after_stp},
      {"dualpipe-v", StagePlacement::Vee, true, true, true, fills_dualpipe, moments_dualpipe_v, all_after},
      // Searched, or two chains against each other: tried last (last_families.cpp).
      {"zb-auto", StagePlacement::Opaque, true, false, true, always, no_moments, all_after, true},
      {"zb-v-auto", StagePlacement::Opaque, true, false, true, always, no_moments, all_after, true},
      {"chimera", StagePlacement::Opaque, false, false, true, even_chains, no_moments, all_after, true},
      {"dualpipe", StagePlacement::Opaque, true, true, true, fills_two_chains, no_moments, all_after, true},
      // What the scenario states beyond these: a family with options of its own, a file.
      {"", StagePlacement::Opaque, true, true, true, always, no_moments, all_after},
  };
  return table;
}

int form_named(std::string_view name) {
  const auto& table = forms();
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace panpipe::planner
