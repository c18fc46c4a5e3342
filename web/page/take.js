// What a person takes along: the link, the scenario, launch flags, the picture, the result, paper.
import { h, download } from './dom.js';
import { state, listen, addressOf, requestOf } from './state.js';

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    said('Copied.');
  } catch {
    said('The browser does not let this page copy: select the text below.');
  }
}

// `ask(request)`: the engine.
export function takeSection(ask, lists) {
  const status = h('p', { role: 'status', class: 'soft', id: 'take-status' }),
    output = h('pre', { tabindex: '0', hidden: true, id: 'take-text', 'aria-label': 'Text' });
  const said = text => { status.textContent = text; };
  const show = text => { output.textContent = text; output.hidden = !text; };
  const get = async (want, act) => {
    said('');
    const answer = await ask(requestOf(state, ['document', want]));
    if (answer?.error) return said(answer.error.message);
    const value = answer?.[want];
    if (value?.refused) return said(value.refused);
    if (value === undefined) return said('This engine does not write that.');
    act(typeof value === 'string' ? value : value.text ?? JSON.stringify(value, null, 2));
  };
  const button = (text, act, id) => h('button', { type: 'button', onclick: act, id }, text);
  const trainers = (lists.trainers || []).filter(item => item.exported);
  const trainer = h('select', { 'aria-label': 'Trainer of the launch flags', id: 'take-trainer' },
    trainers.map(item => h('option', { value: item.name }, item.name)));
  let own;  // the scenario's trainer, when it was last followed
  listen(() => {
    if (state.set.trainer !== own && trainers.some(item => item.name === state.set.trainer)) trainer.value = state.set.trainer;
    own = state.set.trainer;
  });
  return h('section', { 'aria-labelledby': 'take-title', class: 'take' }, h('h2', { id: 'take-title' }, 'Take it along'),
    h('div', { class: 'row' },
      button('Link', async () => {
        const link = location.href.replace(/#.*$/, '') + '#' + await addressOf();
        show(link);
        copy(link, said);
      }, 'take-link'),
      button('Scenario', () => get('scenario', text => { show(text); download('scenario.yaml', text); }), 'take-scenario'),
      button('Picture', () => get('svg', text => { show(''); download('schedule.svg', text, 'image/svg+xml'); }), 'take-svg'),
      button('Result', () => get('document', text => { show(''); download('result.json', text, 'application/json'); }), 'take-result'),
      button('Plan', () => get('plan', text => { show(text); download('plan.yaml', text); }), 'take-plan'),
      button('Report', () => get('page', text => { show(''); download('report.html', text, 'text/html'); }), 'take-report'),
      button('Trace', () => get('trace', text => { show(''); download('trace.json', text, 'application/json'); }), 'take-trace'),
      button('Print', () => window.print(), 'take-print')),
    trainers.length ? h('div', { class: 'row' }, h('label', {}, 'Launch flags for ', trainer),
      button('Show', () => get('flags:' + trainer.value, text => { show(text); copy(text, said); }), 'take-flags')) : '',
    status, output);
}
