// Keeps a page of the dashboard up to date. What comes from a run is only ever put in as text, or is a piece of a page
// that the server made and escaped; scripts in it would not run.

const now = document.getElementById('now');
const lines = document.getElementById('lines');
const link = document.getElementById('link');
const MOST_LINES = 1000;
const SOON = 700; // milliseconds in which what happens at once is shown at once
const TELLING = new Set([
  'task_opened', 'attempt_judged', 'best_changed', 'profiled', 'diagnosed', 'iteration_ended', 'model_changed',
  'run_started', 'run_resumed', 'run_paused', 'run_ended', 'run_failed', 'steered', 'plan_waits',
]); // after which the page is made anew

let fetching = false;
let again = false;

async function refresh() {
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const answer = await fetch(now.dataset.now, { headers: { Accept: 'text/html' } });
    if (answer.ok) replace(await answer.text());
  } catch { /* the server is gone; the stream says so */ }
  fetching = false;
  if (again) { again = false; setTimeout(refresh, SOON); }
}

function replace(html) {
  const made = new DOMParser().parseFromString(html, 'text/html').body;
  const open = new Set([...now.querySelectorAll('details[open][data-key]')].map((each) => each.dataset.key));
  const chosen = new Set([...now.querySelectorAll('input:checked')].map((each) => each.value));
  const held = now.contains(document.activeElement) ? document.activeElement : null;
  const mark = held && (held.getAttribute('href') || held.value || held.getAttribute('aria-label'));
  for (const each of made.querySelectorAll('details[data-key]')) each.open = open.has(each.dataset.key);
  for (const each of made.querySelectorAll('input')) each.checked = chosen.has(each.value);
  now.replaceChildren(...made.childNodes);
  if (mark) for (const each of now.querySelectorAll('a, input, [tabindex]'))
    if ([each.getAttribute('href'), each.value, each.getAttribute('aria-label')].includes(mark)) { each.focus({ preventScroll: true }); break; }
}

let waiting = 0;
function soon() {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, SOON);
}

function add(told) {
  const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
  const line = document.createElement('span');
  line.textContent = told.text;
  if (['best_changed', 'run_ended', 'run_failed'].includes(told.kind)) line.className = 'loud';
  lines.append(line, '\n');
  while (lines.childNodes.length > 2 * MOST_LINES) lines.firstChild.remove();
  if (atEnd) lines.scrollTop = lines.scrollHeight;
}

// What models say. It is asked for while it is open to be read, and only so much of it is kept.
const hearing = document.getElementById('hearing');
const said = document.getElementById('said');
const quiet = document.getElementById('quiet');
const MOST_REPLIES = 6;
const MOST_TEXT = 8000; // characters of a reply

function hush() {
  said.replaceChildren();
  quiet.hidden = false;
}

function hear(told) {
  quiet.hidden = true;
  const atEnd = said.scrollHeight - said.scrollTop - said.clientHeight < 40;
  let reply = [...said.children].find((each) => each.dataset.reply === String(told.reply));
  if (!reply) {
    reply = document.createElement('div');
    reply.dataset.reply = told.reply;
    reply.append(document.createElement('b'), document.createElement('p'));
    reply.firstChild.textContent = told.speaker;
    said.append(reply);
  }
  const whole = (told.is_cut ? '…' : reply.lastChild.textContent) + told.text;
  reply.lastChild.textContent = whole.length > MOST_TEXT ? `…${whole.slice(-MOST_TEXT)}` : whole;
  reply.className = told.is_over ? 'over' : 'going';
  while (said.childElementCount > MOST_REPLIES) said.firstElementChild.remove();
  if (atEnd) said.scrollTop = said.scrollHeight;
}

let stream = null;
let place = now?.dataset.from;
let last = document.getElementById('state')?.textContent;

function follow() {
  stream?.close();
  const address = new URL(now.dataset.events, location);
  address.searchParams.set('from', place);
  if (hearing.open) address.searchParams.set('words', '1');
  stream = new EventSource(address);
  stream.addEventListener('open', () => { link.textContent = 'The page follows the run.'; });
  stream.addEventListener('error', () => { link.textContent = 'The connection is lost; trying again.'; });
  stream.addEventListener('line', (event) => {
    const told = JSON.parse(event.data);
    place = event.lastEventId;
    add(told);
    if (TELLING.has(told.kind)) soon();
  });
  stream.addEventListener('anew', () => { lines.replaceChildren(); soon(); });
  stream.addEventListener('state', (event) => {
    const { state } = JSON.parse(event.data);
    if (state !== last) soon();
    last = state;
  });
  stream.addEventListener('hush', hush);
  stream.addEventListener('said', (event) => hear(JSON.parse(event.data)));
}

function begin() {
  hearing.open = matchMedia('(min-width: 641px)').matches; // a phone is sent what models say once it is opened
  follow();
  let open = hearing.open;
  hearing.addEventListener('toggle', () => { if (hearing.open !== open) { open = hearing.open; follow(); } });
  addEventListener('pagehide', () => stream.close());
  addEventListener('pageshow', (event) => { if (event.persisted) location.reload(); });
}

if (lines) lines.scrollTop = lines.scrollHeight;
if (now?.dataset.events) begin();
else if (now?.dataset.every) setInterval(() => { if (!document.hidden) refresh(); }, Number(now.dataset.every));
