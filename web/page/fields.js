// The fields of the controls. A field is a key of the scenario; choices, defaults and meanings come from the engine's lists.
export const sections = [
  { name: 'Model', fields: [{ key: 'model', label: 'Model', kind: 'model' },
    { key: 'workload.sequence', label: 'Sequence', kind: 'number', unit: 'tokens' }] },
  { name: 'Machine', fields: [
    { key: 'cluster.file', label: 'Servers', kind: 'cluster' },
    { key: 'cluster.nodes', label: 'Nodes', kind: 'number', min: 1 },
    { key: 'cluster.devices_per_node', label: 'GPUs a node', kind: 'number', min: 1 },
    { key: 'cluster.network.oversubscription', label: 'Oversubscribed', kind: 'number', min: 1 }] },
  { name: 'Training', fields: [
    { key: 'trainer', label: 'Trainer', kind: 'trainer' },
    { key: 'precision', label: 'Precision', kind: 'choice' },
    { key: 'batch.global', label: 'Global batch', kind: 'number', min: 1, unit: 'samples' },
    { key: 'optimizer', label: 'Optimizer', kind: 'choice', scalar: true }] },
  { name: 'Plan', fields: [
    { key: 'parallel.pipeline', label: 'Pipeline', kind: 'degree' },
    { key: 'parallel.tensor', label: 'Tensor', kind: 'degree' },
    { key: 'parallel.context', label: 'Context', kind: 'degree' },
    { key: 'parallel.data', label: 'Data', kind: 'degree' },
    { key: 'parallel.expert', label: 'Expert', kind: 'degree', only: 'experts' },
    { key: 'batch.micro', label: 'Microbatch', kind: 'slide', unit: 'samples' },
    { key: 'schedule', label: 'Schedule', kind: 'schedule' },
    { key: 'recompute', label: 'Recompute', kind: 'radio', choices: ['none', 'selective', 'full'] },
    { key: 'parallel.zero', label: 'ZeRO', kind: 'radio', choices: ['0', '1', '2', '3'] },
    { key: 'parallel.sequence_parallel', label: 'Sequence parallel', kind: 'check' }] },
  { name: 'Run', fields: [
    { key: 'run.tokens', label: 'Tokens', kind: 'text', hint: '1T, 300B' },
    { key: 'run.price', label: 'Price of a GPU hour', kind: 'price', hint: '2.50 EUR' }] },
  { name: 'More', closed: true, fields: [
    { key: 'workload.lora.rank', label: 'LoRA rank', kind: 'number', min: 1, hint: 'all weights train' },
    { key: 'offload.optimizer', label: 'Optimizer state on', kind: 'choice' },
    { key: 'offload.parameters', label: 'Parameters on', kind: 'choice' },
    { key: 'framework.allocator', label: 'Allocator', kind: 'choice' },
    { key: 'cluster.network.bandwidth', label: 'Network card', kind: 'text', hint: '50 GB/s' },
    { key: 'usable', label: 'Usable memory', kind: 'text', hint: '90 %' }] },
];

export const allFields = sections.flatMap(section => section.fields);
const axes = ['parallel.tensor', 'parallel.context', 'parallel.pipeline', 'parallel.data'];

// The devices of the chosen machine, where the lists have them: "16 x H100-SXM in 2 nodes; ..." otherwise.
export function devicesOf(set, lists) {
  const chosen = lists.clusters?.find(item => set['cluster.file'] === `clusters/${item.name}.yaml`);
  const words = chosen?.line?.match(/^(\d+) x [^;]*?(?: in (\d+) nodes)?;/);
  const nodes = Number(chosen?.nodes ?? words?.[2] ?? 1);
  const all = Number(chosen?.devices ?? words?.[1] ?? 8);
  const perNode = Number(set['cluster.devices_per_node'] || chosen?.devices_per_node || all / nodes);
  return { perNode, nodes: Number(set['cluster.nodes'] || nodes), all: perNode * Number(set['cluster.nodes'] || nodes),
    ofFile: all / nodes };
}

export const divisors = n => Array.from({ length: n }, (_, i) => i + 1).filter(i => n % i === 0);

// Degrees that fill the devices after one of them moved: data takes what is left; data itself takes it from the pipeline first.
export function fittedDegrees(set, moved, devices) {
  if (!(devices >= 1)) return {};  // the machine's own field has the error
  const degree = Object.fromEntries(axes.map(key => [key, Math.max(1, parseInt(set[key] || '1', 10) || 1)]));
  const product = () => axes.reduce((p, key) => p * degree[key], 1);
  const filler = moved === 'parallel.data' ? 'parallel.pipeline' : 'parallel.data';
  const order = [filler, 'parallel.data', 'parallel.pipeline', 'parallel.context', 'parallel.tensor'].filter(key => key !== moved);
  if (degree[moved] > devices) degree[moved] = devices;
  for (const key of order) {
    if (product() <= devices) break;
    const others = product() / degree[key];
    degree[key] = Math.max(1, divisors(degree[key]).filter(d => d * others <= devices).at(-1) ?? 1);
  }
  const others = product() / degree[filler];
  degree[filler] = Math.max(1, Math.floor(devices / others));
  return Object.fromEntries(axes.filter(key => degree[key] > 1 || set[key]).map(key => [key, String(degree[key])]));
}
