// Colours of pictures: read from the engine's style sheets, so canvas and SVG have the same.
let sheets = [], words = {};
const known = new Map();

// `palette`: {style_sheets, words}
export function setPalette(palette) {
  sheets = palette.style_sheets;
  words = palette.words;
  known.clear();
}

export const wordFor = kind => words[kind] || kind;

function neutral(rules) {
  const found = {};
  for (const [, name, property, value] of rules.matchAll(/(?:^|[\s,}])([.a-z-]+)(?:, \.peak)? \{ (fill|stroke): (#[0-9a-f]+);/g)) {
    const word = name.replace('.', '');
    if (!(word in found)) found[word] = value;
    if (property === 'stroke') found['line-' + word] = value;
  }
  return found;
}

// {paper, ink, soft, idle, grid, curve, area, over, box(kind, shade) -> [fill, ink], strip(kind)}
export function palette(chunks, dark) {
  const shades = Math.min(Math.max(chunks, 1), sheets.length || 1), key = `${shades} ${dark}`;
  if (known.has(key)) return known.get(key);
  const sheet = sheets[shades - 1] || '', cut = sheet.indexOf('@media'), end = sheet.indexOf('\n}\n', cut) + 3;
  const base = neutral(sheet.slice(0, cut)), over = dark ? neutral(sheet.slice(cut, end)) : {}, colours = { ...base, ...over };
  const fills = Object.fromEntries([...sheet.slice(end).matchAll(/\.(t?[A-Zs][\w-]*) \{ fill: (#[0-9a-f]+); \}/g)].map(m => [m[1], m[2]]));
  const table = ['F', 'I', 'W', 'B', 'R', 'O'].flatMap(kind => [0, 1, 2, 3].map(shade => fills[kind + shade] || '#888'));
  const made = {
    fills: table,  // by kind * 4 + shade
    paper: colours.paper || '#fff', ink: colours.text || '#000', soft: colours.soft || '#666', idle: colours.idle || '#eee',
      grid: colours.grid || '#ccc',
    curve: colours.curve || '#567', area: colours.area || '#abc', over: colours.over || '#b00', shades,
    shade: chunk => (chunks <= shades ? chunk : chunk % shades),
    box: (kind, shade) => fills[kind + shade] || '#888',
    ink_on: (kind, shade) => fills[`t${kind}${shade}`] || '#000',
    strip: kind => fills[kind] || '#888',
  };
  known.set(key, made);
  return made;
}
