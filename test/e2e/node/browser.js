// Chromium by playwright: a page of 100 pieces, then WebSockets, by way of weir from a server of HTTP/1.1 on the Unix socket h1.sock.
'use strict';
const assert = require('assert');
const http = require('http');
const { once } = require('events');
const { WebSocketServer } = require('ws');
const { chromium } = require('playwright-core');
const { port, socket, pattern, main } = require('./check.js');

const PIECES = 100;
const seen = { pieces: 0, sockets: 0, uploaded: 0 };

const page = `<!doctype html><title>weir</title><link rel="icon" href="data:,"><script>var n = 0;</script>
${Array.from({ length: PIECES }, (_, i) => `<script src="/piece/${i}.js" async></script>`).join('\n')}`;

function answer(request, response) {
    const piece = /^\/piece\/(\d+)\.js$/.exec(request.url);
    if (piece) {
        seen.pieces++;
        response.setHeader('content-type', 'text/javascript');
        response.setHeader('set-cookie', `piece${piece[1]}=1; path=/`);
        response.end(`n++; /* ${'x'.repeat(Number(piece[1]) * 100)} */`);
    } else if (request.url === '/cookies') {
        response.end(request.headers.cookie || '');
    } else if (request.url === '/large') {
        response.end(pattern(3000000, 5));
    } else if (request.method === 'POST') {
        request.on('data', (chunk) => (seen.uploaded += chunk.length));
        request.on('end', () => response.end(String(seen.uploaded)));
    } else {
        response.setHeader('content-type', 'text/html');
        response.end(page);
    }
}

async function serve() {
    const server = http.createServer(answer);
    new WebSocketServer({ server }).on('connection', (ws) => {
        seen.sockets++;
        ws.on('message', (data, binary) => ws.send(data, { binary }));
    });
    server.listen(socket('h1.sock'));
    await once(server, 'listening');
}

async function browse() {
    const browser = await chromium.launch({
        executablePath: '/usr/bin/chromium',
        headless: true,
        args: [
            '--no-sandbox',
            '--disable-gpu',
            '--disable-quic',
            '--no-first-run',
            '--no-proxy-server',
            '--disable-background-networking',
            '--ignore-certificate-errors',
        ],
    });
    const tab = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage();
    await tab.goto(`https://127.0.0.1:${port}/`, { waitUntil: 'load' });
    return { browser, tab };
}

// Runs in the page: COUNT messages of SIZE there and back; resolves to what came back whole.
const echoInPage = ([url, count, size]) =>
    new Promise((done, failed) => {
        const ws = new WebSocket(url);
        const message = new Uint8Array(size).map((_, i) => i % 251);
        let got = 0;
        ws.binaryType = 'arraybuffer';
        ws.onopen = () => {
            for (let i = 0; i < count; i++) ws.send(message);
        };
        ws.onmessage = ({ data }) => {
            const back = new Uint8Array(data);
            if (back.length === size && back.every((byte, i) => byte === i % 251)) got++;
            if (got === count) ws.close(1000, 'enough');
        };
        ws.onerror = () => failed(new Error('the WebSocket failed'));
        ws.onclose = ({ code, wasClean }) => done({ got, code, wasClean });
    });

const cases = {
    async page() {
        const { browser, tab } = await browse();
        const state = await tab.evaluate(() => ({
            n: window.n,
            protocols: performance.getEntriesByType('resource').map((entry) => entry.nextHopProtocol),
            own: performance.getEntriesByType('navigation')[0].nextHopProtocol,
        }));
        assert.strictEqual(state.n, PIECES);
        assert.strictEqual(state.own, 'h2');
        assert.deepStrictEqual(state.protocols, Array(PIECES).fill('h2'));
        assert.strictEqual(seen.pieces, PIECES);
        await browser.close();
    },
    async content() {
        const { browser, tab } = await browse();
        const cookies = await tab.evaluate(async () => (await fetch('/cookies')).text());
        assert.strictEqual(cookies.split('; ').length, PIECES, 'crumbs of cookies were lost');
        const sent = await tab.evaluate(async () =>
            (await fetch('/upload', { method: 'POST', body: new Uint8Array(2000000) })).text()
        );
        assert.strictEqual(sent, '2000000');
        const sum = await tab.evaluate(async () =>
            new Uint8Array(await (await fetch('/large')).arrayBuffer()).reduce((a, byte) => a + byte, 0)
        );
        assert.strictEqual(sum, pattern(3000000, 5).reduce((a, byte) => a + byte, 0));
        // What is given up half way hurts nobody.
        await tab.evaluate(async () => {
            const stop = new AbortController();
            const reader = (await fetch('/large', { signal: stop.signal })).body.getReader();
            await reader.read();
            stop.abort();
            return (await fetch('/cookies')).text();
        });
        await browser.close();
    },
    async websocket() {
        const { browser, tab } = await browse();
        const url = `wss://127.0.0.1:${port}/ws`;
        const small = await tab.evaluate(echoInPage, [url, 1000, 100]);
        assert.deepStrictEqual(small, { got: 1000, code: 1000, wasClean: true });
        const large = await tab.evaluate(echoInPage, [url, 5, 1024 * 1024]);
        assert.deepStrictEqual(large, { got: 5, code: 1000, wasClean: true });
        assert.strictEqual(seen.sockets, 2);
        await browser.close();
    },
};

serve().then(() => main(cases));
