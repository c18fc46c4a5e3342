// The shared links: which links a simulated step uses, how busy they are, what sharing costs; and the classes of paths of the machine.
import { h, table } from './dom.js';
import { state, requestOf, scenarioText, settingsOf } from './state.js';
import { time, percent, rate } from './format.js';

export class Links {
  constructor(engine) {
    this.engine = engine;
    this.body = h('div', {}, h('p', { class: 'soft', role: 'status' }, 'Simulating …'));
    this.element = h('div', { class: 'view', id: 'links' }, h('h2', {}, 'Shared links'),
      h('p', { class: 'soft' }, 'The step is simulated: transfers that cross a link together share its bandwidth.'), this.body);
  }

  async update() {
    const simulated = await this.engine.ask(requestOf({ ...state, engine: 'simulate' }, ['document']), { channel: 'links' });
    if (!simulated) return;
    const links = await this.engine.ask({ call: 'links', scenario: scenarioText(), name: state.base?.name || 'page.yaml',
      settings: settingsOf(), files: state.files }, { channel: 'pairs' });
    if (simulated.error) return this.body.replaceChildren(h('p', { class: 'error' }, simulated.error.message));
    const used = simulated.document.contention || [], step = simulated.document.metrics.step_time_s;
    const lost = used.reduce((sum, link) => sum + link.lost_s, 0), shared = used.filter(link => link.shared_s > 0).length;
    const words = `${shared} of ${used.length} busy links carry several transfers at some time; these lose ${time(lost)} to one another, `
      + `all taken together, in a step of ${time(step)}.`;
    this.body.replaceChildren(h('p', {}, used.length ? words : 'No link is busy in this step.'),
    used.length ? table('Links, the most contended first',
      [{ name: 'link', text: l => l.resource }, { name: 'lost by flows', number: true, text: l => time(l.lost_s) },
      { name: 'shared', number: true, text: l => time(l.shared_s) }, { name: 'busy', number: true, text: l => time(l.busy_s) },
      { name: '', text: l => h('span', { class: 'bar' },
        h('i', { class: 'k-s-send', style: `width:${(100 * Math.min(1, l.busy_s / step)).toFixed(1)}%` })) },
      { name: 'flows', number: true, text: l => l.flows }, { name: 'carried', number: true, text: l => percent(l.utilisation) }],
        used.slice(0, 60)) : '',
    ...this.pairs(links?.document || links));
  }

  pairs(links) {
    if (!links?.pairs?.length) return [];
    const classes = new Map();
    for (const pair of links.pairs) {
      const key = `${pair.class} ${pair.bandwidth_bytes_per_s}`, entry = classes.get(key) || { ...pair, count: 0 };
      entry.count += 1;
      classes.set(key, entry);
    }
    return [table(`Paths between the ${links.devices} devices of ${links.cluster}`,
      [{ name: 'class', text: p => p.class }, { name: 'pairs', number: true, text: p => p.count },
      { name: 'bandwidth', number: true, text: p => rate(p.bandwidth_bytes_per_s) },
        { name: 'latency', number: true, text: p => time(p.latency_s) },
      { name: 'such as', text: p => `${p.from} → ${p.to}` }, { name: 'through', text: p => p.resources.map(r => r.name).join(', ') }],
        [...classes.values()])];
  }
}
