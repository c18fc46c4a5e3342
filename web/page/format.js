// Figures as people read them, with the digits that the command line prints.
const digits = (value, count) => {
  const places = Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(value) || 1)));
  return value.toFixed(Math.min(places, 6));
};

export function time(seconds) {
  const s = Math.abs(seconds);
  if (s < 1e-12) return '0 s';
  if (s < 1e-3) return digits(seconds * 1e6, 4) + ' µs';
  if (s < 1) return digits(seconds * 1e3, 4) + ' ms';
  if (s < 120) return digits(seconds, 4) + ' s';
  if (s < 7200) return digits(seconds / 60, 3) + ' min';
  if (s < 172800) return digits(seconds / 3600, 3) + ' h';
  return digits(seconds / 86400, 3) + ' d';
}

// Both ends in the unit of the larger.
export function range(low, high, unit = time) {
  const a = unit(low).split(' '), b = unit(high).split(' ');
  return a[1] === b[1] ? `${a[0]} to ${b.join(' ')}` : `${a.join(' ')} to ${b.join(' ')}`;
}

export function bytes(value) {
  if (value < 1024) return value + ' B';
  const power = Math.min(5, Math.floor(Math.log2(Math.abs(value)) / 10));
  return (value / 2 ** (10 * power)).toFixed(2) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][power];
}

// Bandwidths count in powers of ten.
export const rate = value => `${digits(value / 1e9, 3)} GB/s`;

export const gib = value => (value / 2 ** 30).toFixed(1) + ' GiB';
export const percent = (share, places = 1) => (100 * share).toFixed(places) + ' %';
export const grouped = value => Math.round(value).toLocaleString('en');

export function count(value) {
  for (const [power, name] of [[1e12, ' T'], [1e9, ' B'], [1e6, ' M'], [1e3, ' k']])
    if (value >= power) return digits(value / power, 3) + name;
  return digits(value, 3).replace(/\.0+$/, '');
}

export const money = (value, currency) => `${value >= 1000 ? grouped(value) : digits(value, 3)} ${currency}`;

export const change = (before, after) => {
  const share = after / before - 1;
  return Math.abs(share) < 5e-4 ? 'the same' : (share > 0 ? '+' : '−') + percent(Math.abs(share));
};
