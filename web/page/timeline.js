// A timeline that a person can zoom, pan and walk through by keys.
import { h } from './dom.js';
import { palette, wordFor } from './palette.js';
import { prepare, layoutOf, lowerBound, kindNames, kindOf, microbatchOf, actionOf } from './timeline_data.js';
import { bytes } from './format.js';
import { draw } from './timeline_draw.js';

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const paper = window.matchMedia('print');
const keysHelp = 'Keys: left and right go from span to span, up and down to another rank, plus and minus zoom, 0 shows the whole step, '
  + 'shift with left and right moves the view.';

export class Timeline {
  // `roomy`: lanes are as high as those of a few, however many there are.
  constructor(label, { roomy = false } = {}) {
    this.roomy = roomy;
    this.canvas = h('canvas', { tabindex: '0', role: 'application', 'aria-label': `${label}. ${keysHelp}`, class: 'timeline' });
    this.reading = h('p', { class: 'reading', 'aria-live': 'polite' });
    this.hint = h('div', { class: 'hint', hidden: true });
    this.legend = h('ul', { class: 'legend' });
    const button = (text, name, act) => h('button', { type: 'button', 'aria-label': name, title: name, onclick: act }, text);
    const bar = h('div', { class: 'zoom' }, button('+', 'Zoom in', () => this.zoom(0.5)), button('−', 'Zoom out', () => this.zoom(2)),
      button('Whole step', 'Whole step', () => this.whole()));
    this.list = h('details', { class: 'spans', ontoggle: () => this.fillList() }, h('summary', {}, 'Spans in view as a list'),
      h('div', {}));
    this.host = h('div', { class: 'timeline-host' }, this.canvas, this.hint);
    this.element = h('figure', { class: 'timeline-figure' }, h('div', { class: 'timeline-head' }, this.legend, bar), this.host,
      this.reading, this.list);
    this.canvas.timeline = this;  // for tests
    this.pointers = new Map();
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.host);
    dark.addEventListener('change', () => this.redraw());
    const printed = now => () => {
      this.printing = now;
      this.drawNow();
    };
    window.addEventListener('beforeprint', printed(true));
    window.addEventListener('afterprint', printed(false));
  }

  // `keep`: the same step, changed a little: the view stays where it was, by shares of the step.
  set(picture, keep = false, source = null) {
    this.source = source;
    this.detail = null;
    const old = this.data && keep ? [this.from / this.data.end, this.to / this.data.end] : [0, 1];
    this.data = prepare(picture);
    this.cursor = null;
    this.marks = [];
    [this.from, this.to] = [old[0] * this.data.end, old[1] * this.data.end];
    const colours = palette(this.data.chunks, dark.matches);
    this.legend.replaceChildren(
      ...this.data.kinds.map(kind => h('li', {}, Array.from({ length: colours.shades },
        (_, i) => h('i', { style: `background:${colours.box(kind, i)}` })), wordFor(kind))),
      ...this.data.strips.map(kind => h('li', {}, h('i', { class: 'thin', style: `background:${colours.strip(kind)}` }), wordFor(kind))),
      ...(layoutOf(this.data, 1000, this.roomy).curve ? [[colours.area, this.data.memoryName],
        ...(this.data.limit ? [[colours.over, 'limit of a device']] : [])] : [])
        .map(([colour, name]) => h('li', {}, h('i', { class: colour === colours.over ? 'thin' : '', style: `background:${colour}` }), name)));
    this.host.className = `timeline-host ${this.roomy ? 'roomy' : this.data.lanes.length > 16 ? 'many' : ''}`;
    this.reading.textContent = '';
    this.list.open = false;
    this.getDetail();
    this.redraw();
  }

  // What is in view: the whole picture, or where the engine merged spans, a finer part of it.
  get shown() {
    const { detail } = this;
    return detail && detail.from <= this.from && detail.to >= this.to ? detail.data : this.data;
  }

  // A merged picture gets a finer part once the view rests. `source(from, to, pixels)`: the engine's.
  getDetail() {
    clearTimeout(this.rest);
    if (!this.data.merged || !this.source || this.to - this.from > this.data.end / 2) return;
    const length = this.to - this.from, wanted = { from: this.from - length / 2, to: this.to + length / 2 }, { data } = this;
    if (this.detail?.length === length && this.shown !== data) return;
    this.rest = setTimeout(async () => {
      const picture = await this.source(Math.max(0, wanted.from), Math.min(data.end, wanted.to), 4000);
      if (!picture || this.data !== data) return;
      this.select(null);
      this.detail = { ...wanted, length, data: { ...prepare(picture, data.strips), end: data.end, highest: data.highest,
        limit: data.limit } };
      this.redraw();
    }, 120);
  }

  get view() {
    const { from, to, layout } = this, scale = layout.width / (to - from);
    return { from, to, x: t => layout.left + (t - from) * scale, time: x => from + (x - layout.left) / scale };
  }

  redraw() {
    if (this.queued || !this.data) return;
    this.queued = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.queued = 0;
    if (!this.data || !this.host.clientWidth) return;
    this.layout = layoutOf(this.data, this.host.clientWidth, this.roomy);
    this.canvas.style.height = this.layout.height + 'px';
    draw(this.canvas, this.shown, this.view, this.layout, palette(this.data.chunks, dark.matches && !paper.matches && !this.printing),
      this.cursor, this.shown === this.data ? this.marks : []);
  }

  // Outlines the passes of these names: "0F3".
  mark(actions) {
    const wanted = new Set(actions);
    this.marks = this.data.lanes.flatMap(({ boxes }, lane) => Array.from({ length: boxes.count }, (_, index) => ({ lane, index }))
      .filter(({ index }) => wanted.has(actionOf(this.data, boxes, index))));
    this.redraw();
  }

  // Shows the marked passes of one name, of both steps where there are two, and selects the last.
  find(action) {
    const found = this.marks.filter(({ lane, index }) => actionOf(this.data, this.data.lanes[lane].boxes, index) === action);
    if (!found.length) return;
    const of = (column, choose) => choose(...found.map(({ lane, index }) => this.data.lanes[lane].boxes[column][index]));
    const from = of('starts', Math.min), to = of('ends', Math.max), room = to - from;
    this.show(from - room, to + room);
    this.canvas.focus();
    this.select(found.at(-1));
  }

  whole() { this.show(0, this.data.end); }

  show(from, to) {
    const least = this.data.end * 1e-6, length = Math.min(this.data.end, Math.max(least, to - from));
    this.from = Math.min(Math.max(0, from), this.data.end - length);
    this.to = this.from + length;
    this.getDetail();
    if (this.list.open) this.fillList();
    this.redraw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(share) {
    const step = share * (this.to - this.from);
    this.show(this.from + step, this.to + step);
  }

  listen() {
    const place = event => event.clientX - this.canvas.getBoundingClientRect().left;
    // The wheel belongs to the page until the timeline has the focus; with Ctrl, as a pinch arrives, it always zooms.
    this.canvas.addEventListener('wheel', event => {
      if (!this.data) return;
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.canvas && !sideways) return;
      event.preventDefault();
      if (sideways && !event.ctrlKey) this.pan((event.deltaX || event.deltaY) / this.layout.width);
      else this.zoom(Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), this.view.time(place(event)));
    }, { passive: false });
    this.canvas.addEventListener('pointerdown', event => {
      this.pointers.set(event.pointerId, place(event));
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener('pointermove', event => this.moved(event, place(event)));
    for (const end of ['pointerup', 'pointercancel']) this.canvas.addEventListener(end, event => this.pointers.delete(event.pointerId));
    this.canvas.addEventListener('pointerleave', () => { this.hint.hidden = true; });
    this.canvas.addEventListener('click', event => this.select(this.spanAt(event)));
    this.canvas.addEventListener('dblclick', event => this.zoom(0.4, this.view.time(place(event))));
    this.canvas.addEventListener('keydown', event => this.key(event));
  }

  moved(event, x) {
    if (!this.data) return;
    const old = this.pointers.get(event.pointerId);
    if (old === undefined) return this.hover(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length) {
      const factor = Math.max(8, Math.abs(old - others[0])) / Math.max(8, Math.abs(x - others[0]));
      this.zoom(factor, this.view.time((x + others[0]) / 2));
    } else {
      this.pan((old - x) / this.layout.width);
    }
    this.pointers.set(event.pointerId, x);
  }

  spanAt(event) {
    if (!this.data) return null;
    const bounds = this.canvas.getBoundingClientRect(), t = this.view.time(event.clientX - bounds.left), { layout } = this;
    const y = event.clientY - bounds.top - layout.top, lane = Math.floor(y / layout.lane), inside = y - lane * layout.lane;
    if (lane < 0 || lane >= this.shown.lanes.length) return null;
    const { boxes, stripes } = this.shown.lanes[lane], slack = (this.to - this.from) / layout.width;
    if (inside <= layout.box) {
      for (let i = lowerBound(boxes.starts, t - boxes.longest - slack); i < boxes.count && boxes.starts[i] <= t; ++i)
        if (boxes.ends[i] >= t && Math.floor((inside * boxes.tracks[i]) / layout.box) === boxes.track[i]) return { lane, index: i };
      return null;
    }
    const strip = Math.floor((inside - layout.box - 2) / (layout.strip + 1)), of = stripes[strip];
    for (let i = of ? lowerBound(of.starts, t - of.longest - slack) : 0; of && i < of.count && of.starts[i] <= t + slack; ++i)
      if (of.ends[i] >= t - slack) return { lane, strip, stripe: i };
    return null;
  }

  words({ lane, index, strip, stripe }) {
    const { boxes, stripes, ...of } = this.shown.lanes[lane], name = of.name + (of.step && `, ${of.step}`), box = stripe === undefined, spans = box ? boxes : stripes[strip];
    const i = box ? index : stripe, at = value => Number(value.toPrecision(6)), size = spans.bytes[i] ? `, ${bytes(spans.bytes[i])}` : '';
    const when = `${at(spans.starts[i])} to ${at(spans.ends[i])} ${this.data.unit}${size}`, action = actionOf(this.shown, spans, i);
    if (!box || spans.label[i]) return `${name}: ${action}, ${when}`;
    const microbatch = microbatchOf(spans, i), stage = spans.stage[i];
    return `${name}: ${wordFor(kindNames[kindOf(spans.kind[i])])}${microbatch && ` of microbatch ${microbatch}`}`
      + `${stage < 0 ? '' : `, stage ${stage}`}, ${when}`;
  }

  hover(event) {
    const found = this.spanAt(event), bounds = this.host.getBoundingClientRect();
    this.hint.hidden = !found;
    if (!found) return;
    this.hint.textContent = this.words(found);
    const x = event.clientX - bounds.left;
    this.hint.style.left = Math.max(0, Math.min(x + 12, bounds.width - this.hint.offsetWidth - 4)) + 'px';
    this.hint.style.top = event.clientY - bounds.top + 16 + 'px';
  }

  select(found) {
    this.cursor = found;
    this.reading.textContent = found ? this.words(found) : '';
    if (found?.stripe === undefined && found) {
      const { starts, ends } = this.shown.lanes[found.lane].boxes, start = starts[found.index], end = ends[found.index];
      if (end < this.from || start > this.to) this.show(start - (this.to - this.from) / 2, start + (this.to - this.from) / 2);
    }
    this.redraw();
  }

  walk(lanes, spans) {
    const now = this.cursor?.index === undefined ? null : this.cursor;
    const lane = Math.min(Math.max(0, (now?.lane ?? 0) + lanes), this.shown.lanes.length - 1), { boxes } = this.shown.lanes[lane];
    if (!boxes.count) return;
    const time = now ? this.shown.lanes[now.lane].boxes.starts[now.index] : this.from;
    const near = Math.min(lowerBound(boxes.starts, time), boxes.count - 1);
    this.select({ lane, index: lanes || !now ? near : Math.min(Math.max(0, now.index + spans), boxes.count - 1) });
  }

  key(event) {
    if (!this.data || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.cursor?.index !== undefined ? this.shown.lanes[this.cursor.lane].boxes.starts[this.cursor.index] : undefined;
    const acts = { ArrowRight: () => (event.shiftKey ? this.pan(0.2) : this.walk(0, 1)),
      ArrowLeft: () => (event.shiftKey ? this.pan(-0.2) : this.walk(0, -1)),
      ArrowDown: () => this.walk(1, 0), ArrowUp: () => this.walk(-1, 0), '+': () => this.zoom(0.5, at), '=': () => this.zoom(0.5, at),
        '-': () => this.zoom(2, at),
      0: () => this.whole(), Home: () => this.show(0, this.to - this.from),
        End: () => this.show(this.data.end - (this.to - this.from), this.data.end),
      Escape: () => this.select(null) };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }

  fillList() {
    if (!this.list.open || !this.data) return;
    const items = [], most = 200;
    this.shown.lanes.forEach((lane, index) => {
      const { boxes } = lane;
      for (let i = lowerBound(boxes.starts, this.from - boxes.longest); i < boxes.count && boxes.starts[i] < this.to
        && items.length <= most; ++i)
        if (boxes.ends[i] > this.from) items.push({ lane: index, index: i });
    });
    this.list.lastElementChild.replaceChildren(h('ol', {}, items.slice(0, most).map(item => h('li', {}, this.words(item)))),
      items.length > most ? h('p', { class: 'soft' }, `The first ${most}; zoom in for the others.`) : '');
  }
}
