// What the selects offer: the engine's lists.
import { h } from './dom.js';
import { state, put } from './state.js';

const option = (value, text, title) => h('option', { value, title }, text);
const group = (label, options) => (options.length ? [h('optgroup', { label }, options)] : []);

// Shipped config.json files first; built-in models that have a size after them.
export function fillModels(element, lists) {
  const families = new Map([['by config.json', (lists.workloads || []).map(item => option('config:' + item.file, item.name, item.line))]]);
  for (const item of (lists.models || []).filter(item => item.layers))
    families.set(item.family, [...(families.get(item.family) || []), option('model:' + item.name, item.name, item.line)]);
  element.append(...[...families].flatMap(([name, options]) => group(name, options)));
}

// A sequence that was chosen for one model stays where the next may take it; the engine reports where not.
export function chooseModel(value) {
  const [kind, name] = [value.slice(0, value.indexOf(':')), value.slice(value.indexOf(':') + 1)];
  put({ 'workload.config': kind === 'config' ? name : null, 'workload.model': kind === 'model' ? name : null,
    'workload.sequence': kind === 'model' ? null : state.set['workload.sequence'] || '4096', 'parallel.expert': null });
}

export const hasExperts = (lists, degree) => degree > 1
  || Boolean((lists.workloads || []).find(item => item.file === state.set['workload.config'])?.experts)
  || Object.values(state.files).some(text => /expert/.test(text));

export function fillClusters(element, lists) {
  const about = item => {
    const words = item.line.match(/^(\d+) x ([^;]*?)(?: in \d+ nodes)?;/);
    return words ? `${item.name}: ${words[1]} × ${words[2]}` : item.name;
  };
  element.append(...(lists.clusters || []).map(item => option(`clusters/${item.name}.yaml`, about(item), item.line)));
}

export function fillTrainers(element, lists) {
  element.append(option('', 'any, by the model’s kind'),
    ...(lists.trainers || []).map(item => option(item.name, item.name, item.line)));
}

export function fillPrices(element, lists) {
  element.append(...(lists.prices || []).map(item => option(item.name, item.line)));
}

export function fillSchedules(element, lists, trainer) {
  const runs = lists.trainers?.find(item => item.name === trainer)?.schedules, key = `${trainer} ${runs?.length}`;
  if (element.dataset.of === key) return;
  const now = element.value, items = lists.schedules || lists.families || [];
  const of = wanted => items.filter(item => Boolean(runs?.includes(item.name)) === wanted).map(item =>
    option(item.name, item.name, item.line));
  element.dataset.of = key;
  element.replaceChildren(...(runs?.length ? [...group(`what ${trainer} runs`, of(true)), ...group('others', of(false))] : of(false)));
  element.value = now;
}

// Stages per rank have a key that does not depend on the family.
const optionKey = name => (name === 'stages_per_rank' ? 'parallel.virtual_stages' : `schedule.${name}`);

// The options of a family, each an empty number with the family's own default as its hint.
export function familyOptions(box, lists, family, effective) {
  const options = Object.entries((lists.schedules || lists.families || []).find(item => item.name === family)?.options || {});
  if (box.dataset.of !== family) {
    box.dataset.of = family;
    box.replaceChildren(...options.map(([name, byDefault]) => h('label', {}, name.replace(/_/g, ' '),
      h('input', { 'data-option': name, placeholder: String(byDefault), class: 'short', autocomplete: 'off',
        onchange: e => put({ [optionKey(name)]: e.target.value }) }))));
    const stale = Object.keys(state.set).filter(key => /^schedule\.|^parallel.virtual_stages/.test(key)
      && !options.some(([name]) => key === optionKey(name)));
    for (const key of stale) delete state.set[key];
  }
  for (const input of box.querySelectorAll('input'))
    if (document.activeElement !== input) input.value = effective(optionKey(input.dataset.option)) ?? '';
}
