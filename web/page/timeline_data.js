// A picture of the engine, prepared for fast drawing: arrays by lane, sorted by start.
const kinds = ['F', 'I', 'W', 'B', 'R', 'O'];

// Overlapping boxes share the height: each gets the first free track of its stretch.
function tracksOf(starts, ends) {
  const count = starts.length, track = new Uint8Array(count), tracks = new Uint8Array(count).fill(1);
  let first = 0, latest = -Infinity, free = [];
  const close = end => { for (let i = first; i < end; ++i) tracks[i] = Math.max(1, free.length); };
  for (let i = 0; i < count; ++i) {
    if (starts[i] >= latest) {
      close(i);
      first = i;
      free = [];
    }
    let at = free.findIndex(end => end <= starts[i]);
    if (at < 0) at = free.push(0) - 1;
    free[at] = ends[i];
    track[i] = at;
    latest = i === first ? ends[i] : Math.max(latest, ends[i]);
  }
  close(count);
  return { track, tracks };
}

function boxesOf(rows) {
  const boxes = [...rows].sort((a, b) => a[0] - b[0]), count = boxes.length;
  const starts = new Float64Array(count), ends = new Float64Array(count), kind = new Uint8Array(count), chunk = new Uint16Array(count);
  let longest = 0;
  boxes.forEach((box, i) => {
    [starts[i], ends[i]] = box;
    kind[i] = Math.max(0, kinds.indexOf(box[2]));
    chunk[i] = box[3] || 0;
    longest = Math.max(longest, box[1] - box[0]);
  });
  return { rows: boxes, count, starts, ends, kind, chunk, longest, ...tracksOf(starts, ends) };
}

// By kind, as each kind has a strip of its own.
function stripesOf(rows, kind) {
  const stripes = rows.filter(row => row[2] === kind).sort((a, b) => a[0] - b[0]);
  let longest = 0;
  for (const stripe of stripes) longest = Math.max(longest, stripe[1] - stripe[0]);
  return { rows: stripes, count: stripes.length, starts: Float64Array.from(stripes, s => s[0]),
    ends: Float64Array.from(stripes, s => s[1]), longest };
}

// `wholeStrips`: the strips of the picture that this one is a part of.
export function prepare(picture, wholeStrips) {
  const used = new Set(picture.lanes.flatMap(lane => [...new Set((lane.stripes || []).map(stripe => stripe[2]))]));
  const strips = wholeStrips || ['s-tensor', 's-send', 's-receive', 's-data', 's-copy'].filter(kind => used.has(kind));
  const lanes = picture.lanes.map(lane => {
    const memory = lane.memory || [];
    return { name: lane.name, detail: lane.detail || '', peak: lane.peak || 0, peakText: lane.peak_text || '',
      boxes: boxesOf(lane.boxes || []),
      stripes: strips.map(kind => stripesOf(lane.stripes || [], kind)), times: Float64Array.from(memory, m => m[0]),
        levels: Float64Array.from(memory, m => m[1]) };
  });
  const highest = Math.max(0, ...lanes.map(lane => Math.max(lane.peak, lane.levels.reduce((a, b) => Math.max(a, b), 0))));
  const limit = picture.memory_limit > 0 && picture.memory_limit <= 1.3 * highest ? picture.memory_limit : 0;
  const present = kinds.filter((_, k) => lanes.some(lane => lane.boxes.kind.includes(k)));
  return { merged: Boolean(picture.merged), end: picture.end || 1, unit: picture.time_unit || '', chunks: picture.chunks || 1,
    memoryName: picture.memory_name || '',
    highest: Math.max(highest, limit),
    limit, lanes, strips, kinds: present, spans: lanes.reduce((sum, lane) =>
      sum + lane.boxes.count + lane.stripes.reduce((n, strip) => n + strip.count, 0), 0) };
}

export const kindName = index => kinds[index];

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

// Sizes in CSS pixels: many lanes are lower, and lose their curves.
export function layoutOf(data, width) {
  const count = data.lanes.length, narrow = width < 560;
  const box = count > 40 ? 9 : count > 16 ? 14 : count > 8 ? 18 : 24, strip = count > 40 ? 2 : count > 8 ? 3 : 4;
  const curve = data.memoryName && count <= 16 ? (count > 8 ? 16 : 26) : 0;
  const lane = box + 2 + data.strips.length * (strip + 1) + (curve ? curve + 4 : 0) + (count > 40 ? 3 : count > 8 ? 6 : 10);
  const left = narrow ? 46 : Math.min(150, 16 + 6.2 * Math.max(6,
    ...data.lanes.map(l => Math.max(l.name.length, Math.min(22, l.detail.length)))));
  const right = narrow ? 4 : curve ? 66 : 8;
  return { narrow, box, strip, curve, lane, left, right, top: 26, width: Math.max(50, width - left - right),
    height: 26 + count * lane + 4 };
}
