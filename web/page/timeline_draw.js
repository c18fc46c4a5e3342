// Draws what is in view of a prepared picture onto a canvas. Boxes narrower than a pixel are drawn together, each kind as high as
// its share of that time, as the engine's SVG does.
import { kindNames, kindOf, microbatchOf, lowerBound, roundStep } from './timeline_data.js';

const narrow = 1, together = 4;

function drawAxis(c, data, view, layout, colours) {
  const step = roundStep((view.to - view.from) / Math.max(2, layout.width / 90)),
    places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  c.fillStyle = colours.soft;
  c.strokeStyle = colours.grid;
  c.lineWidth = 0.6;
  c.textAlign = 'center';
  c.beginPath();
  for (let t = Math.ceil(view.from / step) * step; t <= view.to + step * 1e-9; t += step) {
    const x = view.x(t);
    c.moveTo(x, layout.top - 6);
    c.lineTo(x, layout.height);
    const near = x > layout.left + layout.width - 20;
    c.fillText(t.toFixed(places) + (near ? '' : ''), x, 13);
  }
  c.stroke();
  c.textAlign = 'left';
  c.fillText(data.unit, 4, 13);
}

// Rectangles by colour: a canvas is slow in changing colours.
class Rectangles {
  constructor() { this.of = new Map(); }
  add(colour, x, y, w, h) {
    let list = this.of.get(colour);
    if (!list) this.of.set(colour, (list = []));
    list.push(x, y, w, h);
  }
  draw(c) {
    for (const [colour, list] of this.of) {
      c.fillStyle = colour;
      for (let i = 0; i < list.length; i += 4) c.fillRect(list[i], list[i + 1], list[i + 2], list[i + 3]);
    }
  }
}

// A box's class is its kind and shade; shares of a merged run are counted by class.
const classes = 24;
const shares = new Float64Array(classes);

function drawMerged(run, y, layout, fills, rectangles) {
  let total = 0, at = y;
  for (let i = 0; i < classes; ++i) total += shares[i];
  for (let i = 0; i < classes; ++i) {
    if (!shares[i]) continue;
    const height = (layout.box * shares[i]) / total;
    rectangles.add(fills[i], run.x, at, Math.max(1, run.end - run.x), height);
    at += height;
    shares[i] = 0;
  }
}

function drawBoxes(c, lane, y, view, layout, colours, rectangles, labels) {
  const { count, starts, ends, kind, chunk, group, track, tracks, longest } = lane.boxes, { fills } = colours, frames = new Map();
  const { left, box } = layout, right = left + layout.width, scale = layout.width / (view.to - view.from),
    origin = left - view.from * scale;
  let run = null;
  for (let i = lowerBound(starts, view.from - longest); i < count && starts[i] < view.to; ++i) {
    if (ends[i] <= view.from) continue;
    const x = Math.max(left, origin + starts[i] * scale), end = Math.min(right, origin + ends[i] * scale), width = end - x;
    const shade = colours.shade(chunk[i]), fill = kindOf(kind[i]) * 4 + shade;
    if (width < narrow) {
      if (run && (x - run.end >= narrow || end - run.x > together)) {
        drawMerged(run, y, layout, fills, rectangles);
        run = null;
      }
      run ??= { x, end };
      run.end = Math.max(run.end, end);
      shares[fill] += Math.max(1e-12, ends[i] - starts[i]);
      continue;
    }
    if (run) {
      drawMerged(run, y, layout, fills, rectangles);
      run = null;
    }
    const height = box / tracks[i], top = y + track[i] * height;
    rectangles.add(fills[fill], x, top, width - (width > 3 ? 0.7 : 0), height - (tracks[i] > 1 ? 0.5 : 0));
    if (group[i] >= 0) frames.set(group[i], [frames.get(group[i])?.[0] ?? x, end]);
    if (width < 8 || height < 8) continue;
    const text = microbatchOf(lane.boxes, i);
    if (text && width > 5.6 * text.length + 3)
      labels.push([text, x + width / 2, top + height / 2, kindNames[kindOf(kind[i])], shade]);
  }
  if (run) drawMerged(run, y, layout, fills, rectangles);
  return [...frames.values()].filter(([from, to]) => to - from > 4).map(([from, to]) => [from + 0.5, y + 0.5, to - from - 1.5, box - 1]);
}

function drawStripes(lane, y, data, view, layout, colours, rectangles) {
  const left = layout.left, right = left + layout.width, scale = layout.width / (view.to - view.from), origin = left - view.from * scale;
  lane.stripes.forEach(({ starts, ends, count, longest }, index) => {
    const colour = colours.strip(data.strips[index]), top = y + layout.box + 2 + index * (layout.strip + 1);
    let from = 0, to = -1;  // stripes that touch, or nearly, are one rectangle
    for (let i = lowerBound(starts, view.from - longest); i < count && starts[i] < view.to; ++i) {
      if (ends[i] <= view.from) continue;
      const x = Math.max(left, origin + starts[i] * scale), stop = Math.min(right, origin + ends[i] * scale);
      if (to >= 0 && x - to < 0.7) {
        to = Math.max(to, stop);
        continue;
      }
      if (to >= 0) rectangles.add(colour, from, top, Math.max(0.6, to - from), layout.strip);
      [from, to] = [x, stop];
    }
    if (to >= 0) rectangles.add(colour, from, top, Math.max(0.6, to - from), layout.strip);
  });
}

function drawCurve(c, lane, y, data, view, layout, colours) {
  const bottom = y + layout.box + 2 + data.strips.length * (layout.strip + 1) + 3 + layout.curve, right = layout.left + layout.width;
  const level = value => bottom - (layout.curve * value) / (data.highest || 1);
  const { times, levels } = lane;
  if (!times.length) return;
  let i = Math.max(0, lowerBound(times, view.from) - 1), px = layout.left, peak = levels[i];
  c.beginPath();
  c.moveTo(layout.left, bottom);
  c.lineTo(layout.left, level(levels[i]));
  for (++i; i < times.length && times[i] <= view.to; ++i) {
    const x = Math.max(layout.left, view.x(times[i]));
    if (x - px < 0.7) {  // several in a pixel: the highest is seen
      peak = Math.max(peak, levels[i]);
      if (i + 1 < times.length && view.x(times[i + 1]) - px < 0.7) continue;
    }
    c.lineTo(x, level(levels[i - 1]));
    if (peak > levels[i]) c.lineTo(x, level(peak));
    c.lineTo(x, level(levels[i]));
    px = x;
    peak = levels[i];
  }
  c.lineTo(Math.min(right, view.x(Math.min(view.to, data.end))), level(levels[i - 1]));
  c.lineTo(Math.min(right, view.x(Math.min(view.to, data.end))), bottom);
  c.fillStyle = colours.area;
  c.globalAlpha = 0.55;
  c.fill();
  c.globalAlpha = 1;
  c.strokeStyle = colours.curve;
  c.lineWidth = 1;
  c.stroke();
  if (data.limit) {
    c.strokeStyle = colours.over;
    c.beginPath();
    c.moveTo(layout.left, level(data.limit));
    c.lineTo(right, level(data.limit));
    c.stroke();
  }
}

function drawNames(c, lane, y, layout, colours) {
  const small = layout.box < 20;
  c.textAlign = 'right';
  c.textBaseline = 'middle';
  c.fillStyle = colours.ink;
  c.font = `${small ? 9 : 12}px system-ui, sans-serif`;
  c.fillText(layout.narrow ? lane.name.replace('rank ', '') : lane.name, layout.left - 8, y + (small || !lane.detail ? layout.box / 2 : 8),
    layout.left - 10);
  c.font = '10px system-ui, sans-serif';
  c.fillStyle = colours.soft;
  if (!small && lane.detail && !layout.narrow) c.fillText(lane.detail, layout.left - 8, y + 21, layout.left - 10);
  if (layout.curve && lane.peakText && !layout.narrow) {
    c.textAlign = 'left';
    c.fillText(lane.peakText, layout.left + layout.width + 5, y + layout.box + 16, layout.right - 6);
  }
}

export function draw(canvas, data, view, layout, colours, cursor, marks = []) {
  const scale = window.devicePixelRatio || 1, c = canvas.getContext('2d');
  const width = layout.left + layout.width + layout.right;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(layout.height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(layout.height * scale);
  }
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.fillStyle = colours.paper;
  c.fillRect(0, 0, width, layout.height);
  c.font = '11px system-ui, sans-serif';
  c.textBaseline = 'alphabetic';
  drawAxis(c, data, view, layout, colours);
  const rectangles = new Rectangles(), labels = [], frames = [];
  c.fillStyle = colours.idle;
  data.lanes.forEach((lane, index) => {
    const y = layout.top + index * layout.lane;
    c.fillRect(layout.left, y, Math.min(layout.width, view.x(data.end) - layout.left), layout.box);
    frames.push(...drawBoxes(c, lane, y, view, layout, colours, rectangles, labels));
    drawStripes(lane, y, data, view, layout, colours, rectangles);
  });
  rectangles.draw(c);
  c.strokeStyle = colours.ink;
  c.lineWidth = 1;
  for (const frame of frames) c.strokeRect(...frame);
  c.font = '9.5px system-ui, sans-serif';
  c.textAlign = 'center';
  c.textBaseline = 'middle';
  for (const [text, x, y, kind, shade] of labels) {
    c.fillStyle = colours.ink_on(kind, shade);
    c.fillText(text, x, y + 0.5);
  }
  data.lanes.forEach((lane, index) => {
    const y = layout.top + index * layout.lane;
    if (layout.curve) drawCurve(c, lane, y, data, view, layout, colours);
    drawNames(c, lane, y, layout, colours);
  });
  for (const mark of marks) drawOutline(c, data, view, layout, colours.over, mark);
  if (cursor) drawOutline(c, data, view, layout, colours.ink, cursor);
}

function drawOutline(c, data, view, layout, colour, cursor) {
  const { boxes, stripes } = data.lanes[cursor.lane], y = layout.top + cursor.lane * layout.lane, box = cursor.stripe === undefined;
  const spans = box ? boxes : stripes[cursor.strip], i = box ? cursor.index : cursor.stripe;
  const x = Math.max(layout.left, view.x(spans.starts[i])), stop = Math.min(layout.left + layout.width, view.x(spans.ends[i]));
  if (stop < layout.left || x > layout.left + layout.width) return;
  const height = box ? layout.box / boxes.tracks[cursor.index] : layout.strip;
  const top = box ? y + boxes.track[cursor.index] * height : y + layout.box + 2 + cursor.strip * (layout.strip + 1);
  c.strokeStyle = colour;
  c.lineWidth = 2;
  c.strokeRect(x - 0.5, top - 0.5, Math.max(2, stop - x), height + 1);
}
