// The controls at the left: fields that change keys of the scenario. They are made once and follow the state.
import { h } from './dom.js';
import { state, put, changed } from './state.js';
import { sections, allFields, devicesOf, divisors, fittedDegrees } from './fields.js';
import { cutWiring, fittingPrice } from './machine.js';
import { fillClusters, fillModels, fillPrices, fillSchedules, fillTrainers, chooseModel, familyOptions, hasExperts } from './choices.js';

let lists, askValues, resolved = {};
const made = new Map();  // key -> {field, box, input, extra, error}

const shipped = value => value?.replace(/^.*\/(clusters|workloads)\//, '$1/');
export const effective = key => state.set[key] ?? (state.base ? shipped(resolved[key]?.value) : undefined);
const effectiveSet = () => Object.fromEntries(['cluster.file', 'cluster.nodes', 'cluster.devices_per_node', 'parallel.pipeline',
  'parallel.tensor',
  'parallel.context', 'parallel.data'].map(key => [key, effective(key)]).filter(([, value]) => value !== undefined));
export const devices = () => devicesOf(effectiveSet(), lists);

const idOf = key => 'field-' + key.replace(/[^a-z0-9]/gi, '-');
const keyItem = key => lists.keys?.find(item => item.key === key);

function putDegree(key, value) {
  const set = { ...effectiveSet(), [key]: value };
  const fitted = fittedDegrees(set, key, devices().all);
  if (key === 'parallel.expert') put({ [key]: value });
  else put(fitted);
}

// Machines of another size: the degrees follow.
async function putMachine(values) {
  const file = values['cluster.file'] ?? effective('cluster.file');
  if ('cluster.file' in values) {
    const network = Object.keys(state.set).filter(key => key.startsWith('cluster.network')).map(key => [key, null]);
    values = { ...values, ...fittingPrice(file, lists), ...Object.fromEntries(network) };
  }
  if ('cluster.devices_per_node' in values) {
    const whole = devicesOf({ 'cluster.file': file }, lists).ofFile;
    values = { ...values, ...(await cutWiring(file, Number(values['cluster.devices_per_node']), whole, askValues)) };
  }
  Object.assign(state.set, values);
  for (const [key, value] of Object.entries(values)) if (value === '' || value === null) delete state.set[key];
  const machine = devices(), tensor = Math.min(Number(effective('parallel.tensor') || 1), machine.perNode);
  put(fittedDegrees({ ...effectiveSet(), 'parallel.tensor': String(tensor) }, 'parallel.tensor', machine.all));
}

function select(field, fill) {
  const input = h('select', { id: idOf(field.key) });
  fill(input, lists);
  input.addEventListener('change', () => {
    if (field.kind === 'model') chooseModel(input.value, lists);
    else if (field.kind === 'cluster') putMachine({ [field.key]: input.value, 'cluster.nodes': '', 'cluster.devices_per_node': '' });
    else {
      if (field.kind === 'schedule' && state.base) detach();
      put({ [field.key]: input.value });
    }
  });
  return input;
}

function choiceFill(field) {
  return element => {
    const item = keyItem(field.key), choices = (item?.choices || []).filter(c => c !== 'auto');
    element.append(new Option(item?.default ? `default: ${item.default.replace(/`/g, '')}` : 'default', ''));
    for (const choice of choices) element.append(new Option(choice, choice));
  };
}

function radios(field) {
  const box = h('div', { class: 'radios', role: 'radiogroup', 'aria-labelledby': idOf(field.key) + '-label' });
  for (const choice of field.choices) {
    const input = h('input', { type: 'radio', name: field.key, value: choice, onchange: () => put({ [field.key]: choice }) });
    box.append(h('label', {}, input, h('span', {}, choice)));
  }
  return box;
}

// A slider over the sensible values, and a number for every other.
function slider(field) {
  const range = h('input', { type: 'range', min: '0', max: '0', step: '1', 'aria-label': field.label + ', slider' });
  const number = h('input', { type: 'number', min: '1', step: '1', id: idOf(field.key), class: 'short' });
  const send = value => (field.kind === 'degree' ? putDegree(field.key, value) : put({ [field.key]: value }));
  range.addEventListener('input', () => send(String(valuesOf(field)[range.value])));
  number.addEventListener('change', () => number.value && send(number.value));
  return { box: h('div', { class: 'slider' }, range, number), input: number, extra: range };
}

function valuesOf(field) {
  const all = devices().all;
  if (field.key === 'parallel.tensor') return divisors(Math.min(all, devices().perNode));
  if (field.kind === 'degree') return divisors(all);
  const global = Number(effective('batch.global') || 64), data = Number(effective('parallel.data') || 1);
  return divisors(Math.max(1, Math.floor(global / data))).filter(v => v <= 64);
}

function control(field) {
  if (field.kind === 'model') return { input: select(field, fillModels) };
  if (field.kind === 'cluster') return { input: select(field, fillClusters) };
  if (field.kind === 'trainer') return { input: select(field, fillTrainers) };
  if (field.kind === 'schedule') {
    const extra = h('div', { class: 'options' }), input = select(field, element => fillSchedules(element, lists, effective('trainer')));
    return { input, extra, box: h('div', {}, input, extra) };
  }
  if (field.kind === 'choice') return { input: select(field, choiceFill(field)) };
  if (field.kind === 'radio') return { input: radios(field) };
  if (field.kind === 'degree' || field.kind === 'slide') return slider(field);
  if (field.kind === 'check')
    return { input: h('input', { type: 'checkbox', id: idOf(field.key), onchange: e => put({ [field.key]: String(e.target.checked) }) }) };
  const input = h('input', { type: field.kind === 'number' ? 'number' : 'text', id: idOf(field.key), min: field.min && String(field.min),
    placeholder: field.hint || '', autocomplete: 'off', list: field.kind === 'price' ? 'prices' : undefined });
  const send = () => (/^cluster\.(nodes|devices)/.test(field.key) ? putMachine({ [field.key]: input.value })
    : put({ [field.key]: input.value }));
  input.addEventListener(field.kind === 'number' ? 'input' : 'change', send);
  return { input };
}

function fieldBox(field) {
  const parts = control(field), id = idOf(field.key), meaning = keyItem(field.key)?.meaning;
  const error = h('p', { class: 'error', id: id + '-error', hidden: true });
  const tag = field.kind === 'radio' ? 'span' : 'label';
  const label = h(tag, { id: id + '-label', [tag === 'label' ? 'for' : 'data-for']: id,
    title: [field.unit, meaning].filter(Boolean).join(': ') },
    field.label);
  const box = h('div', { class: `field ${field.kind}`, 'data-key': field.key }, label, parts.box || parts.input, error);
  parts.input.setAttribute('aria-describedby', error.id);
  made.set(field.key, { ...parts, field, box, error });
  return box;
}

// Any other key: for experts, with the engine's own list of keys.
function anyKey() {
  const key = h('input', { list: 'keys', placeholder: 'any key: framework.attention', 'aria-label': 'Key of the scenario',
    autocomplete: 'off' });
  const value = h('input', { placeholder: 'value', 'aria-label': 'Its value', autocomplete: 'off', class: 'short' });
  const add = () => {
    if (!key.value || !value.value) return;
    put({ [key.value.trim()]: value.value });
    key.value = value.value = '';
    key.focus();
  };
  const options = h('datalist', { id: 'keys' }, (lists.keys || []).map(item => h('option', { value: item.key }, item.meaning || '')));
  const form = h('form', { class: 'anykey', onsubmit: e => { e.preventDefault(); add(); } }, key, value, h('button', {}, 'Set'), options);
  return [form, h('ul', { class: 'chips', id: 'chips', 'aria-label': 'Further keys that are set' })];
}

// `ask(scenario)`: its resolved values.
export function makeControls(engineLists, ask) {
  lists = engineLists;
  askValues = ask;
  made.clear();
  const prices = h('datalist', { id: 'prices' });
  fillPrices(prices, lists);
  return h('form', { class: 'controls', id: 'controls', 'aria-label': 'Scenario', onsubmit: e => e.preventDefault() },
    h('p', { class: 'base', id: 'base', hidden: true }),
    sections.map(section => h('details', { class: 'section', open: !section.closed && !phone.matches, 'data-section': section.name },
      h('summary', {}, section.name, h('span', { class: 'digest' })),
      h('fieldset', { 'aria-label': section.name }, section.fields.map(fieldBox), section.closed ? anyKey() : []))), prices);
}

// On a phone the sections are closed and their first lines hold the values, so that the answer is on the first screen.
const phone = window.matchMedia('(max-width: 900px)');
phone.addEventListener('change', () => {
  for (const section of document.querySelectorAll('.section'))
    section.open = Boolean(section.querySelector('.wrong')) || (!phone.matches && section.dataset.section !== 'More');
});

function showDigests() {
  for (const section of sections) {
    const texts = section.fields.map(field => {
      const value = field.key === 'model' ? modelValue().replace(/^\w+:(workloads\/)?/, '').replace('.json', '')
        : effective(field.key) ?? '';
      const plain = value.replace(/^clusters\/|\.yaml$/g, '');
      if (field.kind === 'degree') return Number(value) > 1 ? `${field.label.toLowerCase()} ${value}` : '';
      if (field.kind === 'radio') return value && value !== field.choices[0] ? `${field.label} ${value}` : '';
      if (field.key === 'batch.micro' || field.key === 'cluster.nodes') return value && `${field.label.toLowerCase()} ${value}`;
      return field.kind === 'check' ? '' : plain;
    });
    document.querySelector(`[data-section="${section.name}"] .digest`).textContent = texts.filter(Boolean).join(', ');
  }
}

function showValue({ field, input, extra, box }) {
  const value = effective(field.key), known = resolved[field.key]?.value;
  if (field.kind === 'radio')
    for (const radio of input.querySelectorAll('input')) radio.checked = radio.value === (value ?? known ?? field.choices[0]);
  else if (field.kind === 'check') input.checked = (value ?? known) === 'true';
  else if (field.kind === 'degree' || field.kind === 'slide') {
    const values = valuesOf(field), now = Number(value ?? known ?? 1);
    extra.max = String(values.length - 1);
    extra.value = String(values.findLastIndex(v => v <= now));
    extra.setAttribute('aria-valuetext', String(now));
    if (document.activeElement !== input) input.value = String(now);
    box.hidden = field.only === 'experts' && !hasExperts(lists, now);
  } else if (field.kind === 'model') input.value = modelValue();
  else if (document.activeElement !== input || input.tagName === 'SELECT') {
    if (input.tagName === 'SELECT' && value && ![...input.options].some(o => o.value === value)) input.append(new Option(value, value));
    input.value = value ?? (field.kind === 'schedule' ? known ?? '' : '');
    if (field.key === 'batch.global' && value === undefined && resolved['batch.microbatches'])
      input.placeholder = ['batch.micro', 'batch.microbatches',
        'parallel.data'].reduce((product, key) => product * Number(resolved[key]?.value ?? 1), 1);
    else if (input.tagName === 'INPUT') input.placeholder = field.hint
      || (known ?? (field.key.endsWith('per_node') ? String(devices().perNode) : ''));
  }
}

const modelValue = () => (effective('workload.config') ? 'config:' + effective('workload.config')
  : 'model:' + (effective('workload.model') ?? ''));

export function updateControls(values) {
  if (values) resolved = values;
  if (!made.size) return;
  const models = made.get('model').input, trainer = effective('trainer');
  if (![...models.options].some(o => o.value === modelValue())) models.append(new Option(modelValue().replace(/^\w+:/, ''), modelValue()));
  fillSchedules(made.get('schedule').input, lists, trainer);
  for (const parts of made.values()) showValue(parts);
  showDigests();
  familyOptions(made.get('schedule').extra, lists, effective('schedule') ?? effective('schedule.name'), effective);
  const base = document.getElementById('base');
  base.hidden = !state.base;
  if (state.base)
    base.replaceChildren(`Based on ${state.base.name}. `,
      h('button', { type: 'button', class: 'link', onclick: () => { detach(); changed('all'); } }, 'Let it go'));
  const known = new Set([...allFields.map(f => f.key), 'workload.config', 'workload.model', 'parallel.virtual_stages']);
  document.getElementById('chips').replaceChildren(...Object.entries(state.set).filter(([key]) => !known.has(key)
    && !/^schedule\./.test(key))
    .map(([key, value]) => h('li', {}, `${key} = ${value} `,
      h('button', { type: 'button', 'aria-label': `Remove ${key}`, onclick: () => put({ [key]: null }) }, '×'))));
}

// What the file of the person states becomes the page's own keys: then a key can also be taken away. Lists of lists stay in the file.
export function detach() {
  const set = {}, lists = {};
  for (const [key, { value, origin }] of Object.entries(resolved)) {
    if (key === 'panpipe' || (origin && !origin.startsWith(state.base.name + ':'))) continue;
    const [, list, rest] = key.match(/^(.*?)\[\d+\](.*)$/) || [];
    if (rest) return;
    if (list) (lists[list] ??= []).push(value);
    else set[key.replace(/^(schedule|trainer)\.name$/, '$1')] = shipped(value);
  }
  for (const [key, values] of Object.entries(lists)) set[key] = `[${values.join(', ')}]`;
  state.set = { ...set, ...state.set };
  state.base = null;
}

// ---- errors at the field

// A key of a map that has no field itself belongs to the first field inside.
function fieldFor(key) {
  if (!key) return undefined;
  if (/^workload\.(config|model)|^workload$/.test(key)) return made.get('model');
  if (/^cluster\.wiring/.test(key)) return made.get('cluster.devices_per_node');
  const near = key.replace(/\[.*$/, '').replace(/\.name$/, '');
  return made.get(near) || made.get([...made.keys()].find(name => name.startsWith(near + '.')));
}

// The diagnostics that have no field are returned.
export function showErrors(error) {
  for (const { error: place, box } of made.values()) {
    place.hidden = true;
    place.replaceChildren();
    box.classList.remove('wrong');
  }
  if (!error) return [];
  const diagnostics = error.diagnostics?.length ? error.diagnostics : [error];
  return diagnostics.filter(diagnostic => {
    const parts = fieldFor(diagnostic.key);
    if (!parts) return true;
    parts.error.append(h('span', {}, diagnostic.message), diagnostic.help ? h('span', { class: 'help' }, diagnostic.help) : '');
    parts.error.hidden = false;
    parts.box.classList.add('wrong');
    const details = parts.box.closest('details');
    if (details) details.open = true;
    return false;
  });
}
