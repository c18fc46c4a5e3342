// The schedule laboratory: any family or order, its costs, its legality, its transfers.
import { h, table, download } from './dom.js';
import { state, changed } from './state.js';
import { percent } from './format.js';
import { Timeline } from './timeline.js';
import { cycleOf, drawCycle } from './cycle.js';

const startAt = { family: 'zb-v', ranks: '4', microbatches: '8', F: '1', I: '1', W: '1', comm: '0' };
const value = key => state.lab[key] ?? startAt[key] ?? '';
const ratio = () => ['F', 'I', 'W'].map(value).join(':');
const number = text => Number(Number(text).toPrecision(5)).toString();

const arenaCaption = 'All families at this size, the shortest first. transfers: finishes with early / late receives as '
  + 'a asynchronous, u buffered, B blocking, g batched';

export class Laboratory {
  constructor(engine, lists) {
    Object.assign(this, { engine, lists, families: lists.schedules || lists.families || [] });
    this.timeline = new Timeline('The order');
    this.figures = h('dl', { class: 'cards' });
    this.faults = h('div', { id: 'lab-faults', 'aria-live': 'polite' });
    this.semantics = h('div', { id: 'lab-semantics' });
    this.arena = h('div', { id: 'lab-arena' });
    this.family = h('select', { id: 'lab-family', onchange: e => this.put({ family: e.target.value, csv: null }) },
      this.families.map(item => h('option', { value: item.name, title: item.line }, item.name)));
    this.line = h('p', { class: 'soft', id: 'lab-line' });
    this.options = h('div', { class: 'options' });
    this.csv = h('textarea', { id: 'lab-csv', rows: '5', spellcheck: false, wrap: 'off', placeholder: '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1',
      onchange: e => this.put({ csv: e.target.value.trim() || null }) });
    this.sliders = [['ranks', 'Ranks', 2, 16, 1], ['microbatches', 'Microbatches', 1, 64, 1], ['F', 'F forward', 0.1, 4, 0.1],
      ['I', 'I input grad.', 0.1, 4, 0.1],
      ['W', 'W weight grad.', 0, 4, 0.1], ['comm', 'Hand-over', 0, 2, 0.05]].map(parts => this.slider(...parts));
    const field = (id, text, input) => h('div', { class: 'field' }, h('label', { for: id }, text), input);
    const controls = h('form', { class: 'controls', 'aria-label': 'Schedule', onsubmit: e => e.preventDefault() },
      h('fieldset', {}, h('legend', {}, 'Schedule'), field('lab-family', 'Family', this.family), this.line, this.options,
        this.sliders.slice(0, 2).map(s => s.box)),
      h('fieldset', {}, h('legend', {}, 'Time of a stage’s pass'), this.sliders.slice(2).map(s => s.box)),
      h('fieldset', {}, h('legend', {}, 'An order of your own'),
        field('lab-csv', 'Rows of ranks, as CSV; drop a file here too', this.csv)));
    this.element = h('div', { class: 'view split', id: 'laboratory' }, controls,
      h('div', { class: 'result' }, this.figures, this.faults, this.timeline.element,
      this.semantics, h('div', { class: 'row' }, h('button', { type: 'button', id: 'lab-arena-go', onclick: () => this.compareAll() },
        'Compare with all families'),
        h('button', { type: 'button', onclick: () => this.save('csv') }, 'Order as CSV'),
          h('button', { type: 'button', onclick: () => this.save('svg') }, 'Picture')), this.arena));
  }

  slider(key, label, min, max, step) {
    const attributes = { min: String(min), step: String(step) };
    const range = h('input', { type: 'range', max: String(max), ...attributes, 'aria-label': label + ', slider',
      oninput: e => this.put({ [key]: e.target.value }) });
    const input = h('input', { type: 'number', class: 'short', id: 'lab-' + key, ...attributes,
      onchange: e => this.put({ [key]: e.target.value }) });
    return { key, range, input, box: h('div', { class: 'field degree' }, h('label', { for: 'lab-' + key }, label),
      h('div', { class: 'slider' }, range, input)) };
  }

  put(values) {
    for (const [key, text] of Object.entries(values))
      if (text === null || text === '') delete state.lab[key];
      else state.lab[key] = text;
    changed('lab');
  }

  request(more = {}) {
    const parameters = Object.fromEntries(Object.entries(state.lab).filter(([key, v]) => key.startsWith('option.')
      && v).map(([key, v]) => [key.slice(7), v]));
    return { call: 'schedule', family: value('family'), parameters, ranks: Number(value('ranks')),
      microbatches: Number(value('microbatches')),
      costs: Object.fromEntries(['F', 'I', 'W', 'comm'].map(key => [key, Number(value(key))])), transfers: 'all',
      ...(value('csv') ? { csv: value('csv') } : {}), ...more };
  }

  showControls() {
    const item = this.families.find(f => f.name === value('family')), options = Object.entries(item?.options || {});
    this.family.value = value('family');
    this.line.textContent = value('csv') ? 'An order of your own, below.' : item?.line || '';
    if (this.options.dataset.of !== item?.name) {
      this.options.dataset.of = item?.name;
      for (const key of Object.keys(state.lab)) if (key.startsWith('option.')
        && !options.some(([name]) => key === 'option.' + name)) delete state.lab[key];
      this.options.replaceChildren(...options.flatMap(([name, byDefault]) => this.optionField(name, String(byDefault))));
    }
    for (const input of this.options.querySelectorAll('input')) {
      const now = state.lab['option.' + input.dataset.option];
      if (input.type === 'range') input.value = now ?? (input.dataset.default === 'P' ? 1 : 2) * value('ranks');
      else if (document.activeElement !== input) input.value = now ?? '';
    }
    for (const { key, range, input } of this.sliders) {
      range.value = value(key);
      range.setAttribute('aria-valuetext', value(key));
      if (document.activeElement !== input) input.value = value(key);
    }
    if (document.activeElement !== this.csv) this.csv.value = value('csv');
  }

  // A limit of memory is also a slider: how much shorter is the order with more of it?
  optionField(name, byDefault) {
    const put = e => this.put({ ['option.' + name]: e.target.value }), common = { 'data-option': name, 'data-default': byDefault };
    const field = h('label', {}, name.replace(/_/g, ' '),
      h('input', { class: 'short', placeholder: byDefault, autocomplete: 'off', onchange: put, ...common }));
    if (name !== 'memory') return [field];
    return [field, h('input', { type: 'range', min: '1', max: String(4 * value('ranks')), 'aria-label': 'memory, slider', oninput: put,
      ...common })];
  }

  async update() {
    this.showControls();
    const answer = await this.engine.ask(this.request(), { channel: 'lab' });
    if (answer) this.show(answer);
    if (answer?.document?.legal) this.showBound(answer);
  }

  // The arena's bound, of orders of this placement that hold no more; it knows no time of a hand-over.
  async showBound(answer) {
    if (Number(value('comm'))) return;
    const judged = await this.engine.ask({ ...this.request(), call: 'arena', alone: true, ratios: [ratio()] }, { channel: 'bound' });
    const row = judged?.document?.rounds?.[0]?.schedules?.[0], { makespan } = answer.document;
    if (this.answer !== answer || !row?.bound || row.period) return;
    const over = row.over_bound, least = number(makespan / (1 + over));
    this.bound.textContent = over < 1e-9 ? `meets the proved bound ${least}` : `${percent(over)} over the proved bound ${least}`;
  }

  show(answer) {
    const d = answer.document, error = answer.error;
    this.answer = answer;
    this.element.classList.toggle('stale', Boolean(error));
    if (error || !d) {
      this.faults.replaceChildren(h('p', { class: 'error' }, error?.message || 'no answer',
        error?.help ? h('span', { class: 'help' }, error.help) : ''));
      return;
    }
    const card = (name, big, ...small) => h('div', { class: 'card' }, h('dt', {}, name), h('dd', { class: 'big' }, big),
      small.filter(Boolean).map(s => (s instanceof Node ? s : h('dd', {}, s))));
    const peaks = d.peak_activations, known = d.makespan !== null && d.makespan !== undefined;
    this.bound = h('dd', { id: 'lab-bound' });
    this.figures.replaceChildren(
      card('Order', h('span', { class: d.legal ? 'good' : 'bad' }, d.legal ? 'legal' : 'not legal'),
        `${d.ranks} ranks, ${d.stages} stages, ${d.microbatches} microbatches`),
      known ? card('Step', number(d.makespan), 'in units of the costs', this.bound) : '',
      known ? card('Bubble', percent(d.bubble_step), `${percent(d.bubble_span)} inside each rank’s own span`) : '',
      peaks ? card('Activations held', number(Math.max(...peaks)),
        `by rank ${peaks.slice(0, 8).map(number).join(', ')}${peaks.length > 8 ? ', …' : ''}`) : '');
    const problems = d.problems || [], cycle = cycleOf(problems);
    this.faults.replaceChildren(problems.length ? h('div', { class: 'faults' }, h('h3', {}, 'Why it is not legal'),
      cycle ? drawCycle(cycle) : '',
      h('ul', {}, problems.slice(0, 12).map(p => h('li', {}, `rank ${p.rank}, cell ${p.position}, ${p.action}: ${p.message}`)))) : '');
    this.timeline.element.hidden = !answer.picture?.lanes?.length;
    if (answer.picture?.lanes?.length) this.timeline.set(answer.picture, true);
    this.showSemantics(answer.transfers?.orders || []);
  }

  showSemantics(orders) {
    if (!orders.length) return this.semantics.replaceChildren();
    const names = Object.keys(orders[0].semantics), under = (order, name) => order.semantics[name];
    const cell = outcome => (outcome?.finishes ? number(outcome.makespan) : h('span', { class: 'bad' }, 'deadlock'));
    const faults = names.flatMap(name => orders.map(order =>
      ({ name: `${name}, receives ${order.receives}`, cycle: cycleOf(under(order, name)?.deadlock || []) })))
      .filter(fault => fault.cycle);
    this.semantics.replaceChildren(
      table('The step under the four transfer semantics', [{ name: 'transfers', text: name => name },
        ...orders.map(order => ({ name: `receives ${order.receives}`, number: true, text: name => cell(under(order, name)) }))], names),
      ...faults.map(fault => h('details', {}, h('summary', {}, `Who waits for whom: ${fault.name}`), drawCycle(fault.cycle))));
  }

  async compareAll() {
    this.arena.replaceChildren(h('p', { class: 'soft', role: 'status' }, 'Comparing: some seconds …'));
    const answer = await this.engine.ask({ ...this.request(), call: 'arena', ratios: [ratio()] },
      { channel: 'arena' });
    if (!answer) return;
    if (answer.error) return this.arena.replaceChildren(h('p', { class: 'error' }, answer.error.message));
    const round = answer.document.rounds[0], mark = s =>
      s.transfers?.map(t => ['asynchronous', 'buffered', 'blocking',
      'batched'].map((name, i) => (t[name] ? 'auBg'[i] : '-')).join('')).join(' / ');
    const legal = round.schedules.filter(s => s.legal && s.makespan !== null);
    this.arena.replaceChildren(table(arenaCaption, [
      { name: 'schedule', text: s => h('button', { type: 'button', class: 'link', title: 'Draw it', onclick: () => this.draw(s.schedule) },
        s.schedule) }, { name: 'stages', number: true, text: s => s.stages_per_rank },
        { name: 'held', number: true, text: s => number(s.held) },
      { name: 'step', number: true, text: s => number(s.makespan) }, { name: 'bubble', number: true, text: s => percent(s.bubble) },
      { name: 'over bound', number: true, text: s => (s.over_bound === undefined || s.over_bound === null ? '' : percent(s.over_bound)) },
        { name: 'transfers', text: mark }],
    legal, s => (s.on_front ? 'front' : '')), h('p', { class: 'soft' },
      'Bold: nothing is as short and holds no more. A forward of a rank’s share takes 1.'));
  }

  // "interleaved-1f1b stages_per_rank=4"
  draw(schedule) {
    const [family, ...options] = schedule.replace(/ \(.*\)/, '').split(' ');
    this.put({ family, csv: null, ...Object.fromEntries(options.filter(o => o.includes('=')).map(o =>
      ['option.' + o.split('=')[0], o.split('=')[1]])) });
  }

  async save(what) {
    const answer = await this.engine.ask(this.request({ want: ['svg'] }));
    if (answer?.[what]) download(what === 'svg' ? 'schedule.svg' : 'order.csv', answer[what],
      what === 'svg' ? 'image/svg+xml' : 'text/csv');
  }
}
