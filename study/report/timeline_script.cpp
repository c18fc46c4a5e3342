#include "study/report/timeline_view.hpp"

namespace panpipe {

// Spans become typed arrays once; each frame draws those in sight, found by bisection, and draws together what is too narrow to
// be seen, by the rule of runs_of() in present/picture/picture_layout.hpp. So a hundred thousand spans move smoothly.
const char* timeline_script() {
  return R"js(
const canvas = document.getElementById("timeline"), pen = canvas.getContext("2d");
const left = 118, top = 22, bottom = 22, strips = new Set();
for (const row of view.rows) for (const part of row.parts) {
  for (const lane of part.lanes) {
    const n = lane.spans.length / 6;
    lane.kind = new Int32Array(n); lane.start = new Float64Array(n); lane.end = new Float64Array(n);
    lane.stage = new Int32Array(n); lane.micro = new Int32Array(n); lane.bytes = new Float64Array(n);
    lane.longest = 0;
    for (let i = 0, at = 0; i < n; ++i) {
      const s = lane.spans, k = 6 * i;
      at += s[k + 1];
      lane.kind[i] = s[k]; lane.start[i] = at; lane.end[i] = at + s[k + 2];
      lane.stage[i] = s[k + 3]; lane.micro[i] = s[k + 4]; lane.bytes[i] = s[k + 5];
      lane.longest = Math.max(lane.longest, s[k + 2]);
    }
    lane.spans = null;
    if (lane.strip >= 0) strips.add(lane.strip);
  }
  let at = 0;
  part.times = []; part.levels = [];
  for (let i = 0; i < part.memory.length; i += 2) { at += part.memory[i]; part.times.push(at); part.levels.push(part.memory[i + 1]); }
}
const order = [...strips].sort((a, b) => a - b);
const many = view.rows.reduce((sum, row) => sum + row.parts.length, 0) > 96;
const box = many ? 8 : 17, strip = many ? 2 : 4, curve = many ? 8 : 24, gap = many ? 3 : 7;
const partHeight = box + 2 + order.length * (strip + 1) + curve + gap;
let height = top;
for (const row of view.rows) {
  for (const part of row.parts) { part.y = height; height += partHeight; }
  if (view.names.length > 1) height += 6;
}
height += bottom;
let from = 0, to = view.end, width = 0, queued = false;
const x = (tick) => left + (tick - from) / (to - from) * (width - left - 8);
const tickAt = (px) => from + (px - left) / (width - left - 8) * (to - from);
const stripY = (lane) => box + 2 + order.indexOf(lane) * (strip + 1);
const first = (values, wanted) => {  // the first index whose value is not below
  let low = 0, high = values.length;
  while (low < high) { const middle = (low + high) >> 1; if (values[middle] < wanted) low = middle + 1; else high = middle; }
  return low;
};
let anyTogether = false;
const drawOne = (lane, i, begin, end, y, tall) => {
  const kind = view.kinds[lane.kind[i]], size = tall / kind.tracks, at = y + size * kind.track;
  begin = Math.max(left, begin);
  end = Math.min(width, end);
  pen.fillStyle = kind.fill;
  pen.fillRect(begin, at, Math.max(view.visible, end - begin - (end - begin > 3 ? 0.7 : 0)), size - (kind.track + 1 < kind.tracks ? 0.7 : 0));
  if (lane.strip >= 0 || many || kind.tracks > 1 || lane.micro[i] < 0 || end - begin <= 8 + 6 * String(lane.micro[i]).length) return;
  pen.fillStyle = kind.ink;
  pen.fillText(lane.micro[i], (begin + end) / 2, y + tall - 5);
};
// Each kind as high as its share of the time; what is left on top is idle.
const drawTogether = (lane, i, j, begin, end, y, tall) => {
  const widths = new Map();
  let busy = 0;
  for (let k = i; k < j; ++k) {
    const part = x(lane.end[k]) - x(lane.start[k]);
    widths.set(lane.kind[k], (widths.get(lane.kind[k]) || 0) + part);
    busy += part;
  }
  const whole = Math.max(busy, end - begin), from = Math.max(left, begin);
  let at = y + tall;
  for (const [kind, part] of [...widths].sort((a, b) => view.kinds[a[0]].order - view.kinds[b[0]].order)) {
    const size = Math.max(lane.strip < 0 ? 0 : 0.15 * tall * part / busy, tall * part / whole);
    at -= size;
    pen.fillStyle = view.kinds[kind].fill;
    pen.fillRect(from, at, Math.max(view.visible, Math.min(width, end) - from), size);
  }
  if (lane.strip < 0) anyTogether = true;
};
const drawLane = (lane, y, tall) => {
  const inSight = (k) => k < lane.start.length && lane.start[k] < to;
  for (let i = first(lane.start, from - lane.longest), j; inSight(i); i = j) {
    j = i + 1;
    if (lane.end[i] < from || lane.end[i] === lane.start[i]) continue;
    const begin = x(lane.start[i]);
    let end = x(lane.end[i]), count = 1;
    for (; end - begin < view.together && (count > 1 || end - begin < view.narrow) && inSight(j); ++j) {
      const next = x(lane.start[j]), last = x(lane.end[j]);
      if (next === last) continue;
      if (last - next >= view.narrow || next - end >= view.narrow || last - begin > view.together) break;
      end = Math.max(end, last);
      ++count;
    }
    if (count > 1) drawTogether(lane, i, j, begin, end, y, tall); else drawOne(lane, i, begin, end, y, tall);
  }
};
const drawMemory = (part, y, colours) => {
  if (!part.times.length) return;
  const most = Math.max(view.levels, 1), at = (level) => y + curve - level / most * curve;
  let i = Math.max(0, first(part.times, from) - 1), last = -1;
  pen.beginPath();
  pen.moveTo(left, y + curve);
  pen.lineTo(left, at(part.levels[i]));
  let peak = part.levels[i];  // of the samples that share a pixel, the highest is shown
  for (++i; i < part.times.length && part.times[i] < to; ++i) {
    const px = x(part.times[i]);
    peak = px - last < 0.5 ? Math.max(peak, part.levels[i]) : part.levels[i];
    pen.lineTo(px, at(px - last < 0.5 ? peak : part.levels[i - 1]));
    pen.lineTo(px, at(peak));
    last = px;
  }
  const end = Math.min(x(to), x(view.end));
  if (last >= 0) pen.lineTo(last, at(part.levels[Math.min(i, part.levels.length) - 1]));
  pen.lineTo(end, at(part.levels[Math.min(i, part.levels.length) - 1]));
  pen.lineTo(end, y + curve);
  pen.fillStyle = colours.fill;
  pen.fill();
  if (part.limit && view.hasLimit) {
    pen.fillStyle = colours.over;
    pen.fillRect(left, at(part.limit), width - left - 8, 1);
  }
};
const roundStep = (least) => {
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= least * (1 - 1e-9));
};
const drawAxis = (colours) => {
  const step = roundStep((to - from) * view.perTick / Math.max(2, (width - left) / 110));
  pen.font = "11px system-ui, sans-serif";
  pen.textAlign = "center";
  for (let i = Math.ceil(from * view.perTick / step - 1e-9); i * step <= to * view.perTick * (1 + 1e-12); ++i) {
    const px = x(i * step / view.perTick), text = String(Number((i * step).toPrecision(10)));
    pen.fillStyle = colours.idle;
    pen.fillRect(px, top - 4, 1, height - top - bottom + 4);
    pen.fillStyle = colours.soft;
    pen.fillText(text, px, 13);
    pen.fillText(text, px, height - 6);
  }
  pen.textAlign = "left";
  pen.fillText("time, " + view.unit, 4, 13);
};
const draw = () => {
  queued = false;
  const style = getComputedStyle(document.documentElement), scale = devicePixelRatio || 1;
  const colours = Object.fromEntries(["ink", "soft", "idle", "grid", "fill", "over", "paper"].map((name) => [name, style.getPropertyValue("--" + name)]));
  width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = height + "px";
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  drawAxis(colours);
  anyTogether = false;
  for (const row of view.rows) for (const part of row.parts) {
    const y = part.y;
    pen.fillStyle = colours.idle;
    pen.fillRect(left, y, width - left - 8, box);
    pen.textAlign = "center";
    pen.font = "10px system-ui, sans-serif";
    for (const lane of part.lanes) drawLane(lane, lane.strip < 0 ? y : y + stripY(lane.strip), lane.strip < 0 ? box : strip);
    drawMemory(part, y + partHeight - curve - gap, colours);
  }
  document.getElementById("together").hidden = !anyTogether;
  pen.textAlign = "left";
  for (const row of view.rows) row.parts.forEach((part, p) => {
    const y = part.y;
    pen.clearRect(0, y - 2, left - 2, partHeight);
    pen.fillStyle = colours.ink;
    pen.font = (many ? "9px" : "12px") + " system-ui, sans-serif";
    if (p === 0) pen.fillText(row.name, 6, y + (many ? 8 : 12));
    pen.fillStyle = colours.soft;
    pen.font = "10.5px system-ui, sans-serif";
    if (many) return;
    if (view.names.length > 1) pen.fillText(view.names[part.of], p === 0 ? 52 : 6, y + 12);
    if (part.detail) pen.fillText(part.detail.length > 19 ? part.detail.slice(0, 18) + "…" : part.detail, 6, y + 26);
    pen.fillText("peak " + sizeText(part.peak * view.perLevel), 6, y + partHeight - gap - 2);
  });
};
const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
const show = (begin, end) => {
  const length = Math.max(view.end / 20000, Math.min(view.end, end - begin));
  from = Math.max(0, Math.min(begin, view.end - length));
  to = from + length;
  redraw();
};
const zoom = (factor, centre) => show(centre - (centre - from) * factor, centre + (to - centre) * factor);
const middle = () => (from + to) / 2;
for (const button of document.querySelectorAll("[data-zoom]"))
  button.addEventListener("click", () => {
    if (button.dataset.zoom === "all") show(0, view.end); else zoom(button.dataset.zoom === "in" ? 0.5 : 2, middle());
  });
canvas.addEventListener("keydown", (event) => {
  const length = to - from;
  const actions = {
    "+": () => zoom(0.5, middle()), "=": () => zoom(0.5, middle()), "-": () => zoom(2, middle()), "0": () => show(0, view.end),
    ArrowLeft: () => show(from - length / 5, to - length / 5), ArrowRight: () => show(from + length / 5, to + length / 5),
  };
  if (event.ctrlKey || event.altKey || event.metaKey || !actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(Math.exp(event.deltaY / 300), tickAt(event.offsetX));
}, { passive: false });
let grabbed = null;
canvas.addEventListener("pointerdown", (event) => { grabbed = { x: event.clientX, from, to }; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointerup", () => { grabbed = null; });
const sizeText = (mib) => mib >= 1024 ? (mib / 1024).toFixed(2) + " GiB" : mib >= 1 ? mib.toFixed(1) + " MiB" : (mib * 1024).toFixed(1) + " KiB";
const found = (px, py) => {
  const row = px < left ? undefined : view.rows.find((row) => row.parts.some((part) => py >= part.y && py < part.y + partHeight));
  if (!row) return "";
  const part = row.parts.find((part) => py < part.y + partHeight);
  const inside = py - part.y, tick = tickAt(px), near = 1.5 * (to - from) / width;
  const where = row.name + (view.names.length > 1 ? ", " + view.names[part.of] : "") + ", device " + part.device + (part.detail ? ", " + part.detail : "");
  if (inside > partHeight - curve - gap) {
    const i = first(part.times, tick) - 1;
    return i < 0 ? where : where + "\nmemory " + sizeText(part.levels[i] * view.perLevel) + ", peak " + sizeText(part.peak * view.perLevel) + (part.limit ? ", limit " + sizeText(part.limit * view.perLevel) : "");
  }
  const lines = [];
  for (const lane of part.lanes) {
    const y = lane.strip < 0 ? 0 : stripY(lane.strip), tall = lane.strip < 0 ? box : strip + 1;
    if (inside < y || inside > y + tall) continue;
    for (let i = first(lane.start, tick + near) - 1; i >= 0 && lane.start[i] > tick - lane.longest - near && lines.length < 3; --i) {
      if (lane.end[i] < tick - near) continue;
      const kind = view.kinds[lane.kind[i]], begin = lane.start[i] * view.perTick, end = lane.end[i] * view.perTick;
      const name = kind.label || lane.stage[i] < 0 ? kind.name : lane.stage[i] + kind.name + (lane.micro[i] >= 0 ? lane.micro[i] : "");
      lines.push(name + ": " + begin.toPrecision(6) + " to " + end.toPrecision(6) + " " + view.unit + " (" + (end - begin).toPrecision(4) + ")" + (lane.bytes[i] ? ", " + sizeText(lane.bytes[i] / 1048576) : ""));
    }
  }
  return [where, ...lines].join("\n");
};
canvas.addEventListener("pointermove", (event) => {
  if (grabbed) {
    const moved = (event.clientX - grabbed.x) / (width - left - 8) * (grabbed.to - grabbed.from);
    return show(grabbed.from - moved, grabbed.to - moved);
  }
  panpipe.hint(found(event.offsetX, event.offsetY), event.clientX, event.clientY);
});
canvas.addEventListener("pointerleave", () => panpipe.hint(""));
canvas.style.height = height + "px";
new ResizeObserver(redraw).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
canvas.panpipeView = { show, draw, range: () => [from, to], rows: () => view.rows.flatMap((row) => row.parts.map((part) => part.y)), found };
redraw();
)js";
}

}  // namespace panpipe
