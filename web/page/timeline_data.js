// A picture of the engine (present/picture/picture_data.hpp), prepared for fast drawing: typed arrays by lane, sorted by start.

// Overlapping boxes share the height: each gets the first free track of its stretch.
function tracksOf(starts, ends) {
  const count = starts.length, track = new Uint8Array(count), tracks = new Uint8Array(count).fill(1);
  let first = 0, latest = -Infinity, free = [];
  const close = end => { if (free.length > 1) tracks.fill(free.length, first, end); };
  for (let i = 0; i < count; ++i) {
    if (starts[i] >= latest) {
      close(i);
      first = i;
      free = [ends[i]];
      latest = ends[i];
      continue;
    }
    let at = 0;
    while (at < free.length && free[at] > starts[i]) ++at;
    free[at] = ends[i];
    track[i] = at;
    latest = Math.max(latest, ends[i]);
  }
  close(count);
  return { track, tracks };
}

// The columns of a picture, one after the other, each from a multiple of 8 bytes on.
class Columns {
  constructor(buffer) { this.buffer = buffer, this.at = 0; }
  take(Type, count) {
    const column = new Type(this.buffer, this.at, count);
    this.at += Math.ceil(column.byteLength / 8) * 8;
    return column;
  }
  spans(count) {
    const found = { count, starts: this.take(Float64Array, count), ends: this.take(Float64Array, count),
      bytes: this.take(Float64Array, count), stage: this.take(Int32Array, count), microbatch: this.take(Int32Array, count),
      label: this.take(Uint32Array, count), kind: this.take(Uint8Array, count), split: this.take(Int8Array, count), longest: 0, kinds: 0 };
    for (let i = 0; i < count; ++i) {
      found.longest = Math.max(found.longest, found.ends[i] - found.starts[i]);
      found.kinds |= 1 << kindOf(found.kind[i]);
    }
    return found;
  }
  boxes(count) {
    const boxes = this.spans(count), group = this.take(Int32Array, count), chunk = this.take(Uint16Array, count);
    return { ...boxes, group, chunk, ...tracksOf(boxes.starts, boxes.ends) };
  }
}

const stripKinds = ['s-tensor', 's-send', 's-receive', 's-data', 's-copy'];

// `wholeStrips`: the strips of the picture that this one is a part of.
export function prepare(picture, wholeStrips) {
  const columns = new Columns(picture.bytes), strips = wholeStrips || stripKinds.filter(kind => picture.lanes.some(l => l.stripes[kind]));
  const lanes = picture.lanes.map(lane => {
    const boxes = columns.boxes(lane.boxes), found = {};
    for (const [kind, count] of Object.entries(lane.stripes)) found[kind] = columns.spans(count);
    return { name: lane.name, detail: lane.detail || '', step: lane.step || '', peak: lane.peak || 0, peakText: lane.peak_text || '', boxes,
      stripes: strips.map(kind => found[kind] || columns.spans(0)), times: columns.take(Float64Array, lane.memory),
      levels: columns.take(Float64Array, lane.memory) };
  });
  const highest = Math.max(0, ...lanes.map(lane => lane.levels.reduce((a, b) => Math.max(a, b), lane.peak)));
  const limit = picture.memory_limit > 0 && picture.memory_limit <= 1.3 * highest ? picture.memory_limit : 0;
  const used = kindNames.filter((_, k) => lanes.some(lane => lane.boxes.kinds & (1 << k)));
  return { merged: Boolean(picture.merged), end: picture.end || 1, unit: picture.time_unit || '', chunks: picture.chunks || 1,
    memoryName: picture.memory_name || '', actions: picture.actions, labels: picture.labels,
    highest: Math.max(highest, limit), limit, lanes, strips, kinds: used,
    spans: lanes.reduce((sum, lane) => sum + lane.boxes.count + lane.stripes.reduce((n, strip) => n + strip.count, 0), 0) };
}

// What a box is drawn as: the passes, and the optimizer with all other actions.
export const kindNames = ['F', 'I', 'W', 'B', 'R', 'O'];
export const kindOf = action => Math.min(action, kindNames.length - 1);

// "3", or "3.1": the microbatch of a span, and its part.
export const microbatchOf = (spans, i) => (spans.microbatch[i] < 0 ? ''
  : spans.split[i] < 0 ? String(spans.microbatch[i]) : `${spans.microbatch[i]}.${spans.split[i]}`);

// "0SEND_F0 all_reduce"; of spans that were merged how many.
export function actionOf(data, spans, i) {
  const label = data.labels[spans.label[i]], stage = spans.stage[i] < 0 ? '' : spans.stage[i];
  if (/ in a row$/.test(label)) return label;
  return `${stage}${data.actions[spans.kind[i]]}${microbatchOf(spans, i)}${label ? ' ' + label : ''}`;
}

// First index whose value is at least `value`.
export function lowerBound(values, value, at = x => x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(values[middle]) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find(times => times * power >= least * (1 - 1e-9)) * power;
}

const mostRoomy = 128;  // a browser draws no canvas of 16,384 pixels

// Sizes in CSS pixels. Many lanes are lower, and lose their curves, unless there is room for all.
export function layoutOf(data, width, roomy) {
  const count = roomy && data.lanes.length <= mostRoomy ? Math.min(8, data.lanes.length) : data.lanes.length, narrow = width < 560;
  const box = count > 40 ? 9 : count > 16 ? 14 : count > 8 ? 18 : 24, strip = count > 40 ? 2 : count > 8 ? 3 : 4;
  const curve = data.memoryName && count <= 16 ? (count > 8 ? 16 : 26) : 0;
  const lane = box + 2 + data.strips.length * (strip + 1) + (curve ? curve + 4 : 0) + (count > 40 ? 3 : count > 8 ? 6 : 10);
  const left = narrow ? 46 : Math.min(150, 16 + 6.2 * Math.max(6,
    ...data.lanes.map(l => Math.max(l.name.length, Math.min(22, l.detail.length)))));
  const right = narrow ? 4 : curve ? 66 : 8;
  return { narrow, box, strip, curve, lane, left, right, top: 26, width: Math.max(50, width - left - right),
    height: 26 + data.lanes.length * lane + 4 };
}
