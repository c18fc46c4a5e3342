// Elements by one call. Text is always set as text, so nothing that a file says becomes markup.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name === 'style') element.style.cssText = value;
    else if (name in element && typeof value !== 'string') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== undefined && child !== null && child !== false));
  return element;
}

export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const byId = id => document.getElementById(id);

// A table of columns {name, text(row), number} for rows.
export function table(caption, columns, rows, rowClass = () => '') {
  const cell = (column, row) => {
    const value = column.text(row);
    return h('td', { class: column.number ? 'num' : column.long ? 'long' : '' }, value instanceof Node ? value : String(value ?? ''));
  };
  return h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', {}, caption),
      h('thead', {}, h('tr', {}, columns.map(c => h('th', { scope: 'col', class: c.number ? 'num' : '' }, c.name)))),
      h('tbody', {}, rows.map(row => h('tr', { class: rowClass(row) }, columns.map(c => cell(c, row)))))));
}

export function download(name, text, type = 'text/plain') {
  const link = h('a', { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
