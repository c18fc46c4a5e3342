// Draws what is in view of a prepared picture onto a canvas. Boxes narrower than a pixel are drawn together, each kind as high as
// its share of that time, as the engine's SVG does.
import { kindName, lowerBound, roundStep } from './timeline_data.js';

const narrow = 1, together = 4;

function drawAxis(c, data, view, layout, colours) {
  const step = roundStep((view.to - view.from) / Math.max(2, layout.width / 90)), places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
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

function drawMerged(run, y, layout, rectangles) {
  const total = [...run.shares.values()].reduce((a, b) => a + b, 0) || 1;
  let at = y;
  for (const [colour, share] of run.shares) {
    const height = (layout.box * share) / total;
    rectangles.add(colour, run.x, at, Math.max(1, run.end - run.x), height);
    at += height;
  }
}

function drawBoxes(c, lane, y, view, layout, colours, rectangles, labels) {
  const { boxes } = lane, colour = i => colours.box(kindName(boxes.kind[i]), colours.shade(boxes.chunk[i]));
  const left = layout.left, right = layout.left + layout.width;
  let run = null;
  for (let i = lowerBound(boxes.starts, view.from - boxes.longest); i < boxes.count && boxes.starts[i] < view.to; ++i) {
    if (boxes.ends[i] <= view.from) continue;
    const x = Math.max(left, view.x(boxes.starts[i])), end = Math.min(right, view.x(boxes.ends[i])), width = end - x;
    if (width < narrow) {
      if (!run || x - run.end >= narrow || end - run.x > together) {
        if (run) drawMerged(run, y, layout, rectangles);
        run = { x, end, shares: new Map() };
      }
      run.end = Math.max(run.end, end);
      run.shares.set(colour(i), (run.shares.get(colour(i)) || 0) + Math.max(1e-12, boxes.ends[i] - boxes.starts[i]));
      continue;
    }
    if (run) {
      drawMerged(run, y, layout, rectangles);
      run = null;
    }
    const height = layout.box / boxes.tracks[i], top = y + boxes.track[i] * height, gap = width > 3 ? 0.7 : 0;
    rectangles.add(colour(i), x, top, width - gap, height - (boxes.tracks[i] > 1 ? 0.5 : 0));
    const text = boxes.rows[i][4];
    if (text && height >= 8 && width > 5.6 * text.length + 3) labels.push([text, x + width / 2, top + height / 2, kindName(boxes.kind[i]), colours.shade(boxes.chunk[i])]);
  }
  if (run) drawMerged(run, y, layout, rectangles);
}

function drawStripes(lane, y, data, view, layout, colours, rectangles) {
  const left = layout.left, right = layout.left + layout.width, last = data.strips.map(() => -1e9);
  for (let i = lowerBound(lane.stripes, view.from - lane.longestStripe, s => s[0]); i < lane.stripes.length && lane.stripes[i][0] < view.to; ++i) {
    const [start, end, kind] = lane.stripes[i];
    if (end <= view.from) continue;
    const x = Math.max(left, view.x(start)), stop = Math.min(right, view.x(end)), index = data.strips.indexOf(kind);
    if (stop <= last[index] + 0.3) continue;  // under the one before
    last[index] = stop;
    rectangles.add(colours.strip(kind), x, y + layout.box + 2 + index * (layout.strip + 1), Math.max(0.6, stop - x), layout.strip);
  }
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
  c.fillText(layout.narrow ? lane.name.replace('rank ', '') : lane.name, layout.left - 8, y + (small || !lane.detail ? layout.box / 2 : 8), layout.left - 10);
  c.font = '10px system-ui, sans-serif';
  c.fillStyle = colours.soft;
  if (!small && lane.detail && !layout.narrow) c.fillText(lane.detail, layout.left - 8, y + 21, layout.left - 10);
  if (layout.curve && lane.peakText && !layout.narrow) {
    c.textAlign = 'left';
    c.fillText(lane.peakText, layout.left + layout.width + 5, y + layout.box + 16, layout.right - 6);
  }
}

export function draw(canvas, data, view, layout, colours, cursor) {
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
  const rectangles = new Rectangles(), labels = [];
  c.fillStyle = colours.idle;
  data.lanes.forEach((lane, index) => {
    const y = layout.top + index * layout.lane;
    c.fillRect(layout.left, y, Math.min(layout.width, view.x(data.end) - layout.left), layout.box);
    drawBoxes(c, lane, y, view, layout, colours, rectangles, labels);
    drawStripes(lane, y, data, view, layout, colours, rectangles);
  });
  rectangles.draw(c);
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
  if (cursor) drawCursor(c, data, view, layout, colours, cursor);
}

function drawCursor(c, data, view, layout, colours, cursor) {
  const { boxes, stripes } = data.lanes[cursor.lane], y = layout.top + cursor.lane * layout.lane, box = cursor.stripe === undefined;
  const [start, end, kind] = box ? boxes.rows[cursor.index] : stripes[cursor.stripe];
  const x = Math.max(layout.left, view.x(start)), stop = Math.min(layout.left + layout.width, view.x(end));
  if (stop < layout.left || x > layout.left + layout.width) return;
  const height = box ? layout.box / boxes.tracks[cursor.index] : layout.strip;
  const top = box ? y + boxes.track[cursor.index] * height : y + layout.box + 2 + data.strips.indexOf(kind) * (layout.strip + 1);
  c.strokeStyle = colours.ink;
  c.lineWidth = 2;
  c.strokeRect(x - 0.5, top - 0.5, Math.max(2, stop - x), height + 1);
}
