// What would keep a person from reading or working a page, as texts; run in the page by tests/browser.py.
() => {
  const found = [];
  const say = (element, what) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const all = (selector) => document.querySelectorAll(selector);
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  };
  const name = (element) =>
    ['aria-label', 'alt', 'title'].map((each) => element.getAttribute(each)).find((text) => text) ||
    element.textContent.trim();

  // The page as a whole.
  if (!document.documentElement.lang) found.push('no language');
  if (!document.title.trim()) found.push('no title');
  for (const landmark of ['main', 'h1']) if (all(landmark).length !== 1) found.push(`not one ${landmark}`);
  let level = 0;
  for (const heading of all('h1,h2,h3,h4,h5,h6')) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) say(heading, `heading jumps from ${level}`);
    if (!heading.textContent.trim()) say(heading, 'empty heading');
    level = own;
  }
  const ids = new Set();
  for (const element of all('[id]')) {
    if (ids.has(element.id)) say(element, 'id twice');
    ids.add(element.id);
  }

  // Names of what can be pressed, filled in or seen.
  for (const element of all('a[href],button,summary,[role=button],[role=region],[role=group]'))
    if (!name(element)) say(element, 'no name');
  for (const link of all('a[href^="#"]')) if (!ids.has(link.getAttribute('href').slice(1))) say(link, 'leads nowhere');
  for (const image of all('img')) if (!image.hasAttribute('alt')) say(image, 'no alt');
  for (const picture of all('svg:not([aria-hidden])'))
    if (picture.getAttribute('role') !== 'img' || !picture.getAttribute('aria-label')) say(picture, 'nameless picture');
  for (const input of all('input:not([type=hidden]),select,textarea'))
    if (!input.labels.length && !input.getAttribute('aria-label')) say(input, 'no label');
  for (const table of all('table')) {
    if (!table.querySelector('th')) say(table, 'table without heads');
    for (const head of table.querySelectorAll('thead th')) if (!head.textContent.trim()) say(head, 'empty head');
  }

  // Pictures: words that are cut off, too small to read, or written over each other.
  const SMALLEST = 9.5; // pixels
  for (const picture of all('svg')) {
    if (!shown(picture)) continue;
    const frame = picture.getBoundingClientRect();
    const holder = picture.parentElement.getBoundingClientRect();
    const scale = frame.width / (picture.viewBox.baseVal?.width || frame.width);
    const texts = [...picture.querySelectorAll('text')].map((text) => [text, text.getBoundingClientRect()]);
    texts.forEach(([text, box], place) => {
      const edges = [Math.max(frame.left, holder.left) - 1, Math.min(frame.right, holder.right) + 1];
      if (box.left < edges[0] || box.right > edges[1] || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        say(text, 'cut off');
      if (parseFloat(getComputedStyle(text).fontSize) * scale < SMALLEST) say(text, 'too small');
      for (const [other, its] of texts.slice(place + 1)) {
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (across > 1 && down > box.height / 3) say(text, `under ${other.textContent}`);
      }
    });
  }

  // The keyboard: what scrolls takes the focus, or holds something that does.
  for (const element of all('*')) {
    const scrolls = ['auto', 'scroll'].includes(getComputedStyle(element).overflowX);
    if (scrolls && element.scrollWidth > element.clientWidth + 1 && shown(element))
      if (element.tabIndex < 0 && !element.querySelector('a[href],button')) say(element, 'scrolls but takes no focus');
    if (element.tabIndex > 0) say(element, 'tab order by hand');
  }

  // Contrast of text by computed colours (WCAG 2.2, 1.4.3).
  const parse = (text) => {
    const match = text.match(/rgba?\(([^)]+)\)/);
    const parts = match ? match[1].split(/[ ,/]+/).map(Number) : null;
    return parts && [...parts.slice(0, 3), parts[3] ?? 1];
  };
  const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (colour) =>
    [0.2126, 0.7152, 0.0722].reduce((sum, weight, place) => sum + weight * channel(colour[place] / 255), 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour && colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || seen.has(element)) continue;
    if (element.closest('title,script,style,.unseen') || !shown(element)) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const picture = element.closest('svg');
    const ink = parse(picture ? style.fill : style.color);
    if (!ink) continue;
    const pair = [light(ink), light(ground(picture ? picture.parentElement : element))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < (large ? 3 : 4.5)) say(element, `contrast ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)].slice(0, 40);
}
