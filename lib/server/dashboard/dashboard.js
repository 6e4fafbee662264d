// The dashboard: reads /metrics once a second, keeps a quarter of an hour, and draws. Everything it shows is in /metrics and /admission.
'use strict';

const EVERY = 1000;
const KEPT = 900; // samples
const UNLIMITED = 4294967295; // weir_handshakes_limit of a worker without one

const $ = (id) => document.getElementById(id);
const samples = []; // {at, values: Map of name -> [{labels, value}]}

// ---- Prometheus text ----

function parse(text) {
  const values = new Map();
  for (const line of text.split('\n')) {
    const found = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, key, value] of (found[2] || '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g))
      labels[key] = value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    if (!values.has(found[1])) values.set(found[1], []);
    values.get(found[1]).push({ labels, value: Number(found[3]) });
  }
  return values;
}

const fits = (labels, wanted) => Object.entries(wanted).every(([key, value]) => labels[key] === value);

function sum(sample, name, wanted = {}) {
  let total = 0;
  for (const { labels, value } of sample.values.get(name) || []) if (fits(labels, wanted)) total += value;
  return total;
}

// A counter's growth a second; what was reset begins anew.
function rate(before, after, name, wanted) {
  const grown = sum(after, name, wanted) - sum(before, name, wanted);
  return Math.max(grown, 0) / ((after.at - before.at) / 1000);
}

// The QUANTILE, in milliseconds, of what a histogram was told between two samples: the upper end of its bucket; NaN: nothing.
function quantile(before, after, name, wanted, q) {
  const count = (sample) => {
    const at = new Map();
    for (const { labels, value } of sample.values.get(name + '_bucket') || [])
      if (fits(labels, wanted)) at.set(labels.le, (at.get(labels.le) || 0) + value);
    return at;
  };
  const [old, now] = [count(before), count(after)];
  const grown = [...now].map(([le, n]) => [le === '+Inf' ? Infinity : Number(le), n - (old.get(le) || 0)]);
  grown.sort((a, b) => a[0] - b[0]);
  const total = grown.length ? grown[grown.length - 1][1] : 0;
  if (total <= 0) return NaN;
  for (const [le, n] of grown) if (n >= q * total) return le * 1000;
  return NaN;
}

// ---- what is shown ----

const chosen = () => ($('listener').value ? { listener: $('listener').value } : {});
const per = (name, labels = {}) => (a, b) => rate(a, b, name, { ...chosen(), ...labels });
const gauge = (name) => (a, b) => sum(b, name, chosen());
const percentile = (name, q) => (a, b) => quantile(a, b, name, chosen(), q);

function limit(a, b) {
  const bound = sum(b, 'weir_handshakes_limit', chosen());
  return bound >= UNLIMITED ? NaN : bound;
}

const REASONS = ['too_many_handshakes', 'too_many_connections', 'rate_limited', 'denied', 'handshake_timeout', 'abandoned'];
const others = (a, b) =>
  per('weir_connections_refused_total')(a, b) -
  REASONS.reduce((total, reason) => total + per('weir_connections_refused_total', { reason })(a, b), 0);

const PLOTS = [
  { title: 'Requests', unit: '/s', lines: [
    ['2xx', per('weir_requests_total', { class: '2xx' })], ['5xx', per('weir_requests_total', { class: '5xx' })],
    ['3xx', per('weir_requests_total', { class: '3xx' })], ['4xx', per('weir_requests_total', { class: '4xx' })]] },
  { title: 'Latency of requests', unit: 'ms', lines: [
    ['p50', percentile('weir_request_duration_seconds', 0.5)], ['p90', percentile('weir_request_duration_seconds', 0.9)],
    ['p99', percentile('weir_request_duration_seconds', 0.99)]] },
  { title: 'Handshakes', unit: '/s', lines: [
    ['full', per('weir_handshakes_full_total')], ['failed', per('weir_handshakes_failed_total')],
    ['resumed', per('weir_handshakes_resumed_total')]] },
  { title: 'Connections refused', unit: '/s', lines: [
    ...REASONS.map((reason) => [reason.replaceAll('_', ' '), per('weir_connections_refused_total', { reason })]), ['other', others]] },
  { title: 'Handshake backlog', unit: '', lines: [
    ['waiting', gauge('weir_handshakes_waiting')], ['limit', limit, 'limit'], ['running', gauge('weir_handshakes_running')],
    ['kernel’s queue', gauge('weir_accept_queue')]] },
  { title: 'Wait for a handshake', unit: 'ms', lines: [
    ['p50', percentile('weir_handshake_wait_seconds', 0.5)], ['p99', percentile('weir_handshake_wait_seconds', 0.99)]] },
  { title: 'Connections', unit: '', lines: [
    ['active', gauge('weir_connections_active')], ['silent', gauge('weir_connections_silent')],
    ['idle', gauge('weir_connections_idle')], ['hibernated', gauge('weir_connections_hibernated')],
    ['closing', gauge('weir_connections_closing')]] },
  { title: 'Event loop', unit: 'ms', lines: [
    ['turn p50', (a, b) => quantile(a, b, 'weir_loop_lag_seconds', {}, 0.5)],
    ['turn p99', (a, b) => quantile(a, b, 'weir_loop_lag_seconds', {}, 0.99)]] },
];

// ---- drawing ----

function text(value, unit) {
  if (!Number.isFinite(value)) return '–';
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: digits }) + (unit === 'ms' ? ' ms' : '');
}

// 1, 2 or 5 times a power of ten, at least VALUE.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value) || 10 * power;
}

function element(kind, attributes = {}, ...children) {
  const space = ['svg', 'path', 'line'].includes(kind) ? 'http://www.w3.org/2000/svg' : 'http://www.w3.org/1999/xhtml';
  const made = document.createElementNS(space, kind);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function makePlot(plot) {
  plot.paths = plot.lines.map(([, , style], i) => element('path', { class: `c${i}${style ? ' ' + style : ''}` }));
  plot.cursor = element('line', { class: 'cursor', y1: 0, y2: 100, visibility: 'hidden' });
  plot.svg = element('svg', { viewBox: '0 0 100 100', preserveAspectRatio: 'none', role: 'img', 'aria-label': plot.title },
    ...[0, 50, 100].map((y) => element('line', { class: 'grid', x1: 0, x2: 100, y1: y, y2: y })), ...plot.paths, plot.cursor);
  plot.most = element('small');
  plot.begin = element('span');
  plot.marks = plot.lines.map(([name], i) => element('li', { class: `c${i}` }, name + ' ', element('b', {}, '–')));
  plot.svg.addEventListener('pointermove', (event) => {
    const box = plot.svg.getBoundingClientRect();
    plot.pointed = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    draw(plot);
  });
  plot.svg.addEventListener('pointerleave', () => {
    plot.pointed = undefined;
    draw(plot);
  });
  $('plots').append(element('article', {}, element('h2', {}, plot.title, plot.most), plot.svg,
    element('div', { class: 'axis' }, plot.begin, element('span', {}, 'now')), element('ul', {}, ...plot.marks)));
}

function draw(plot) {
  const end = samples.length ? samples[samples.length - 1].at : 0;
  const span = Math.min(Number($('span').value) * 1000, Math.max(60000, Math.ceil((end - samples[0].at) / 60000) * 60000));
  const shown = samples.filter((sample) => sample.at >= end - span - EVERY);
  const rows = shown.slice(1).map((sample, i) => ({
    x: 100 - ((end - sample.at) / span) * 100,
    at: sample.at,
    values: plot.lines.map(([, value]) => value(shown[i], sample)),
  }));
  const top = ceiling(Math.max(0, ...rows.flatMap((row) => row.values).filter(Number.isFinite)));
  plot.lines.forEach((_, i) => {
    let pen = 'M';
    plot.paths[i].setAttribute('d', rows.map((row) => {
      if (!Number.isFinite(row.values[i])) {
        pen = 'M';
        return '';
      }
      const step = `${pen}${row.x.toFixed(2)} ${(100 - (row.values[i] / top) * 100).toFixed(2)}`;
      pen = 'L';
      return step;
    }).join(''));
  });
  const pointed = plot.pointed === undefined ? rows[rows.length - 1]
    : rows.reduce((best, row) => (!best || Math.abs(row.x - plot.pointed * 100) < Math.abs(best.x - plot.pointed * 100) ? row : best), undefined);
  plot.cursor.setAttribute('visibility', plot.pointed === undefined || !pointed ? 'hidden' : 'visible');
  if (pointed) {
    plot.cursor.setAttribute('x1', pointed.x);
    plot.cursor.setAttribute('x2', pointed.x);
    plot.marks.forEach((mark, i) => (mark.lastChild.textContent = text(pointed.values[i], plot.unit)));
  }
  plot.most.textContent = `up to ${text(top, plot.unit)}${plot.unit === '/s' ? ' /s' : ''}`;
  plot.begin.textContent = plot.pointed !== undefined && pointed ? `${Math.round((end - pointed.at) / 1000)} s ago` : `${span / 60000} min ago`;
}

function drawUpstreams() {
  const [before, now] = [samples[Math.max(0, samples.length - 11)], samples[samples.length - 1]];
  const names = (now.values.get('weir_upstream_requests_total') || []).map(({ labels }) => labels.cluster);
  $('upstreams').tBodies[0].replaceChildren(...names.map((cluster) => {
    const wanted = { cluster };
    const requests = rate(before, now, 'weir_upstream_requests_total', wanted);
    const failures = rate(before, now, 'weir_upstream_failed_total', wanted) + rate(before, now, 'weir_upstream_connect_failed_total', wanted);
    const state = failures > 0 ? (failures >= requests / 2 ? 'failing' : 'some failures') : requests > 0 ? 'serving' : 'quiet';
    const cell = (value, unit) => element('td', {}, text(value, unit));
    return element('tr', {}, element('td', {}, cluster), element('td', { class: failures > 0 ? 'bad' : 'good' }, state), cell(requests),
      cell(quantile(before, now, 'weir_upstream_response_seconds', wanted, 0.5), 'ms'),
      cell(quantile(before, now, 'weir_upstream_response_seconds', wanted, 0.99), 'ms'),
      cell(sum(now, 'weir_upstream_connections_active', wanted)), cell(sum(now, 'weir_upstream_connections_idle', wanted)),
      cell(sum(now, 'weir_upstream_requests_pending', wanted)),
      element('td', {}, requests > 0 ? Math.round((rate(before, now, 'weir_upstream_reused_total', wanted) / requests) * 100) + '%' : '–'),
      cell(rate(before, now, 'weir_upstream_retries_total', wanted)), cell(failures));
  }));
}

function nameListeners(sample) {
  const select = $('listener');
  for (const { labels } of sample.values.get('weir_connections_accepted_total') || [])
    if (![...select.options].some((option) => option.value === labels.listener)) select.append(new Option(labels.listener, labels.listener));
}

function say(words, how) {
  $('state').textContent = words;
  $('state').className = how;
}

function drawAll() {
  if (samples.length < 2) return;
  PLOTS.forEach(draw);
  drawUpstreams();
}

// ---- every second ----

async function fetchText(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(5000) });
  return { status: answer.status, text: await answer.text() };
}

async function look() {
  const sample = { at: Date.now(), values: parse((await fetchText('metrics')).text) };
  samples.push(sample);
  if (samples.length > KEPT + 1) samples.shift();
  nameListeners(sample);
  drawAll();
  $('admission').textContent = (await fetchText('admission')).text;
  const ready = await fetchText('readyz');
  const active = sum(sample, 'weir_requests_active');
  say(`${ready.text.trim()}, ${text(active)} request${active === 1 ? '' : 's'} in flight`, ready.status === 200 ? 'good' : 'bad');
}

async function go() {
  const began = Date.now();
  try {
    if (!document.hidden) await look();
  } catch {
    say('weir does not answer', 'bad');
  }
  setTimeout(go, Math.max(0, EVERY - (Date.now() - began)));
}

PLOTS.forEach(makePlot);
$('listener').addEventListener('change', drawAll);
$('span').addEventListener('change', drawAll);
go();
