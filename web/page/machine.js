// What else changes when a person chooses another machine, or a part of one.
import { state } from './state.js';

// A part of a server has the wiring of its first devices: lists of devices in the machine's file lose the others.
const wirings = new Map();  // machine -> its lists, as [key, [[0, 1], [2, 3]]], read from an answer for the whole server

function noteWiring(file, values) {
  const lists = new Map();
  for (const [key, { value }] of Object.entries(values || {})) {
    const at = key.match(/^(cluster\.wiring\..*?)\[(\d+)\]\[(\d+)\]$/);
    if (!at) continue;
    const rows = lists.get(at[1]) || lists.set(at[1], []).get(at[1]);
    (rows[at[2]] ??= [])[at[3]] = Number(value);
  }
  wirings.set(file, lists);
}

// Keys that leave the first `perNode` of a server's `whole` devices; null takes a key away.
export async function cutWiring(file, perNode, whole, askValues) {
  const cut = Object.fromEntries(Object.keys(state.set).filter(key => key.startsWith('cluster.wiring')).map(key => [key, null]));
  if (!perNode || perNode >= whole) return cut;
  if (!wirings.has(file)) noteWiring(file, await askValues(smallest(file)));
  const below = rows => rows.map(row => row.filter(device => device < perNode)).filter(row => row.length);
  for (const [key, rows] of wirings.get(file))
    cut[key] = JSON.stringify(/pairs$/.test(key) ? rows.filter(row => row.every(device => device < perNode)) : below(rows));
  return cut;
}

// A price list without this device would be an error that nobody asked for: another list, or none.
export function fittingPrice(file, lists) {
  const device = lists.clusters?.find(item => file === `clusters/${item.name}.yaml`)?.device,
    has = item => item.line.includes(device + ' ');
  const listed = lists.prices?.find(item => item.name === state.set['run.price']);
  return listed && device && !has(listed) ? { 'run.price': lists.prices.find(has)?.name ?? null } : {};
}

const smallest = file => `panpipe: 1\ncluster: {file: ${file}}\nworkload: {model: gpt2}\nbatch: {micro: 1, microbatches: 1}\n`
  + 'parallel: {pipeline: 1}\n';
