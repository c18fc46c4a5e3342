// The answer at the top: step time with its interval, whether it fits, speed, days and money; where the time goes.
import { h, svg } from './dom.js';
import { isRemedy } from './memory.js';
import { time, range, gib, percent, grouped, count, money, change } from './format.js';

const card = (name, value, ...small) => h('div', { class: 'card' }, h('dt', {}, name), h('dd', { class: 'big' }, value),
  small.filter(Boolean).map(line => h('dd', {}, line)));

// p10 to p90 on an axis from zero, the median as a mark: a wide bar is an unsure answer.
function intervalBar(low, middle, high) {
  const x = value => (100 * value) / (high * 1.04);
  return svg('svg', { viewBox: '0 0 100 8', preserveAspectRatio: 'none', class: 'interval', 'aria-hidden': 'true' },
    svg('rect', { x: 0, y: 3.5, width: 100, height: 1, class: 'rail' }),
    svg('rect', { x: x(low), y: 1, width: x(high) - x(low), height: 6, class: 'span' }),
    svg('rect', { x: x(middle) - 0.5, y: 0, width: 1, height: 8, class: 'mark' }));
}

const verdicts = {
  surely: ['fits surely', 'good'], probably: ['fits probably', 'good'], hardly: ['hardly fits', 'warn'], not: ['does not fit', 'bad'],
};

export function verdict(metrics) {
  return verdicts[metrics.fits_how] || (metrics.fits ? ['fits', 'good'] : ['does not fit', 'bad']);
}

export function tokensOf(answer) {
  const words = answer.text?.match(/([\d,]+) tokens\/s/);
  if (words) return Number(words[1].replace(/,/g, ''));
  const sequence = Number(answer.values?.['workload.sequence']?.value);
  return sequence ? answer.document.metrics.samples_per_s * sequence : undefined;
}

function versus(now, before, name) {
  const by = before && change(before[name], now[name]);
  return by ? h('span', { class: 'versus' }, by === 'the same' ? 'as before' : `${by} against before`) : null;
}

export function answerCards(answer, before) {
  const m = answer.document.metrics, old = before?.document?.metrics, [words, mood] = verdict(m);
  const known = m.step_time_p10_s !== undefined, pieces = answer.document.evidence?.pieces?.length,
    middle = m.step_time_p50_s ?? m.step_time_s;
  const apart = Math.abs(middle / m.step_time_s - 1) > 0.005;  // of the calculated step: what is missed, or measurements
  const step = card('Step time', time(pieces ? middle : m.step_time_s),
    apart ? (pieces ? `by the evidence; calculated ${time(m.step_time_s)}` : `half of runs above ${time(middle)}`) : null,
    known ? h('span', {}, `80 % of runs: ${range(m.step_time_p10_s, m.step_time_p90_s)}`) : 'how sure is not known',
      versus(m, old, 'step_time_s'));
  if (known) step.insertBefore(intervalBar(m.step_time_p10_s, middle, m.step_time_p90_s), step.children[2]);
  const memory = card('Memory', h('span', { class: mood }, words),
    `${gib(m.peak_memory_bytes)} of ${gib(m.memory_limit_bytes)}, ${percent(m.peak_memory_bytes / m.memory_limit_bytes, 0)}`,
    m.fits ? null : `${gib(m.peak_memory_bytes - m.memory_limit_bytes)} too much`, versus(m, old, 'peak_memory_bytes'));
  const tokens = tokensOf(answer) && tokensOf(answer) * (pieces ? m.step_time_s / middle : 1);
  const big = (figure, unit) => h('span', {}, figure, h('small', {}, ' ' + unit));
  const speed = card('Speed', tokens ? big(grouped(tokens), 'tokens/s') : big(count(m.samples_per_s), 'samples/s'),
    m.mfu !== undefined ? `MFU ${percent(m.mfu)}, ${count(m.samples_per_s)} samples/s` : null, `bubble ${percent(m.bubble_step)}`);
  const cards = [step, memory, speed];
  if (m.run_time_s !== undefined)
    cards.push(card('Run', time(m.run_time_s), m.run_time_p10_s !== undefined ? `80 %: ${range(m.run_time_p10_s, m.run_time_p90_s)}` : null,
      `${count(m.gpu_hours)} GPU hours, ${count(m.run_steps)} steps`,
      m.cost !== undefined ? h('strong', {}, money(m.cost, m.currency || '')) : null,
      m.cost_p10 !== undefined ? `80 %: ${range(m.cost_p10, m.cost_p90, v => money(v, m.currency || ''))}` : null));
  return h('dl', { class: 'cards' }, cards);
}

// Compute, exposed communication, idle: they add up to the step.
export function whereTheTimeGoes(metrics) {
  const idle = Math.max(0, metrics.step_time_s - metrics.compute_s - metrics.exposed_communication_s);
  const parts = [['compute', metrics.compute_s, 'F'], ['exposed communication', metrics.exposed_communication_s, 's-send'],
    ['idle, nothing in flight', idle, 'idle']];
  return h('section', { 'aria-labelledby': 'time-title' }, h('h2', { id: 'time-title' }, 'Where the time goes'),
    h('ul', { class: 'bars' }, parts.map(([name, seconds, kind]) => h('li', {}, h('span', { class: 'name' }, name),
      h('span', { class: 'bar' }, h('i', { class: 'k-' + kind,
        style: `width:${Math.max(0, 100 * seconds / metrics.step_time_s).toFixed(2)}%` })),
      h('span', { class: 'num' }, time(seconds)), h('span', { class: 'num' }, percent(seconds / metrics.step_time_s, 0))))));
}

const pieceText = piece => (piece.left_out ? `${piece.file} does not count: ${piece.left_out}` : `${piece.file}: ${piece.what}; half width of the interval `
  + `${percent(piece.half_width_before)} → ${percent(piece.half_width_after)}`);

export function remarks(answer) {
  const evidence = answer.document.evidence;
  const lines = [
    ...(answer.warnings || []).filter(text => !isRemedy(text) && !isCaution(text)).map(text => ['', text]),
    ...(evidence?.pieces || []).map(piece => ['', pieceText(piece)]),
    ...(answer.hints || []).map(hint => ['', typeof hint === 'string' ? hint : hint.text]),
  ];
  return h('section', { 'aria-labelledby': 'remarks-title' }, h('h2', { id: 'remarks-title' }, 'What to know'),
    h('ul', { class: 'remarks' }, lines.map(([kind, text]) => h('li', { class: kind }, text)),
      evidence?.class ? h('li', { class: 'soft' }, `What makes the interval wide: ${(evidence.limits || []).join('; ') || 'many parts'}. `
        + `Steps alike: ${evidence.class}.`) : null));
}

const isCaution = text => /^(caution|warning): /.test(text);

export function heading(answer) {
  return h('div', { class: 'heading' }, (answer.document.heading || []).map(line => h('p', {}, line)),
    (answer.warnings || []).filter(isCaution).map(text => h('p', { class: 'warn' }, text)));
}

// The answer in one line, which stays on a phone's screen while the controls are moved.
export function strip(answer) {
  const m = answer.document.metrics, [words, mood] = verdict(m), tokens = tokensOf(answer);
  return [h('strong', {}, time(m.step_time_s)), ' ', h('strong', { class: mood }, words), ' ',
    h('span', {}, tokens ? `${grouped(tokens)} tokens/s` : '')];
}
