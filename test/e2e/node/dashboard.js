// The dashboard in Chromium, while requests and refusals go on: what it shows is what /metrics says, nothing comes from elsewhere.
'use strict';
const assert = require('assert');
const http = require('http');
const path = require('path');
const { chromium } = require('playwright-core');
const { dir, port, main } = require('./check.js');

const home = `http://127.0.0.1:${port}/`;

async function open(context) {
    const browser = await chromium.launch({
        executablePath: '/usr/bin/chromium',
        headless: true,
        args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--no-proxy-server', '--disable-background-networking'],
    });
    const tab = await (await browser.newContext(context)).newPage();
    const told = [];
    const asked = [];
    tab.on('console', (message) => told.push(message.text()));
    tab.on('pageerror', (error) => told.push(error.message));
    tab.on('request', (request) => asked.push(request.url()));
    await tab.goto(home);
    return { browser, tab, told, asked };
}

// One request a connection at the plain listener, which is named by the page.
function get(target) {
    return new Promise((done, failed) => {
        http.get(target, { agent: false }, (response) => response.resume().on('end', done)).on('error', failed);
    });
}

async function edge() {
    const text = await (await fetch(home + 'metrics')).text();
    assert(text.includes('weir_requests_total{listener="edge",class="2xx"}'), text.slice(0, 2000));
    return `http://127.0.0.1:${process.env.EDGE_PORT}/`;
}

const figure = (tab, title, name) =>
    tab.evaluate(([title, name]) => {
        const plot = [...document.querySelectorAll('article')].find((found) => found.querySelector('h2').textContent.startsWith(title));
        const mark = [...plot.querySelectorAll('li')].find((found) => found.textContent.startsWith(name + ' '));
        return mark.querySelector('b').textContent;
    }, [title, name]);

async function live() {
    const target = await edge();
    const { browser, tab, told, asked } = await open({ colorScheme: 'dark', viewport: { width: 1200, height: 900 } });
    const load = setInterval(() => {
        get(target).catch(() => {});
        get(target + 'dead').catch(() => {});
    }, 20);
    const shows = async (title, name, test) => {
        for (;;) {
            const value = Number((await figure(tab, title, name)).replace(/[^0-9.]/g, '') || 'NaN');
            if (test(value)) return;
            await new Promise((done) => setTimeout(done, 100));
        }
    };
    await shows('Requests', '2xx', (value) => value > 0);
    await shows('Requests', '5xx', (value) => value > 0);
    await shows('Latency', 'p99', (value) => value > 0);
    await tab.waitForFunction(() => /ready/.test(document.getElementById('state').textContent));
    await tab.waitForFunction(() => /dead\s*failing/.test(document.getElementById('upstreams').innerText));
    await tab.waitForFunction(() => /edge \(plain\)/.test(document.getElementById('admission').textContent));
    await tab.waitForFunction(() => document.querySelector('article path').getAttribute('d').includes('L'));
    // Of a listener that nobody uses.
    await tab.selectOption('#listener', 'quiet');
    await shows('Requests', '2xx', (value) => value === 0);
    clearInterval(load);
    await tab.screenshot({ path: path.join(dir, 'dashboard.png'), fullPage: true });
    assert.deepStrictEqual(told, []);
    for (const url of asked) assert(url.startsWith(home) || url.startsWith('data:'), url);
    const colours = await tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.notStrictEqual(colours, 'rgb(246, 247, 249)', 'dark is not light');
    await browser.close();
}

async function phone() {
    const { browser, tab, told } = await open({ viewport: { width: 360, height: 740 }, isMobile: true });
    await tab.waitForFunction(() => /edge \(plain\)/.test(document.getElementById('admission').textContent));
    const width = await tab.evaluate(() => document.documentElement.scrollWidth);
    assert(width <= 360, `${width} pixels wide`);
    assert.deepStrictEqual(told, []);
    await browser.close();
}

async function gone() {
    const { browser, tab } = await open({});
    await tab.waitForFunction(() => /ready/.test(document.getElementById('state').textContent));
    process.kill(Number(process.env.WEIR_PID), 'SIGTERM');
    await tab.waitForFunction(() => /does not answer/.test(document.getElementById('state').textContent));
    await browser.close();
}

main({ live, phone, gone });
