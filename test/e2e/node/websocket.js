// WebSocket by ws: a client over HTTP/1.1 or HTTP/2 (RFC 8441), weir, a server over either on Unix sockets, h1.sock and h2.sock.
// A case is <what>_<client's version>_<server's version>; the listener's paths /h1 and /h2 lead to the servers.
'use strict';
const assert = require('assert');
const http = require('http');
const http2 = require('http2');
const { once } = require('events');
const { WebSocket, WebSocketServer } = require('ws');
const { port, tls, read, socket, pattern, until, main } = require('./check.js');

const MIB = 1024 * 1024;
const authority = `127.0.0.1:${port}`;
const seen = { closed: [] };

function attend(ws) {
    ws.on('message', (data, binary) => ws.send(data, { binary }));
    ws.on('close', (code, reason) => seen.closed.push(`${code} ${reason}`));
    ws.on('error', () => {}); // 'close' follows
}

// A WebSocket on a stream of HTTP/2; ws itself makes them from an upgraded socket only.
function onStream(stream, isServer) {
    const ws = new WebSocket(null, undefined, { autoPong: true, closeTimeout: 30000 });
    ws._isServer = isServer;
    ws.setSocket(stream, Buffer.alloc(0), { allowSynchronousEvents: true, maxPayload: 4 * MIB, skipUTF8Validation: false });
    return ws;
}

async function serve() {
    const h1 = http.createServer();
    new WebSocketServer({ server: h1, perMessageDeflate: { threshold: 0 } }).on('connection', attend);
    const h2 = http2.createServer({ settings: { enableConnectProtocol: true } });
    h2.on('stream', (stream, headers) => {
        assert.strictEqual(headers[':method'], 'CONNECT');
        assert.strictEqual(headers[':protocol'], 'websocket');
        assert.strictEqual(headers['sec-websocket-version'], '13');
        stream.respond({ ':status': 200 });
        attend(onStream(stream, true));
    });
    h1.listen(socket('h1.sock'));
    h2.listen(socket('h2.sock'));
    await Promise.all([once(h1, 'listening'), once(h2, 'listening')]);
}

async function openH1(path, options) {
    const ws = new WebSocket(`${tls ? 'wss' : 'ws'}://${authority}${path}`, {
        ca: tls ? read('cert.pem') : undefined,
        servername: 'localhost',
        perMessageDeflate: false,
        ...options,
    });
    await once(ws, 'open');
    return ws;
}

let session;

async function openH2(path) {
    if (!session) {
        session = http2.connect(`${tls ? 'https' : 'http'}://${authority}`, {
            ca: tls ? read('cert.pem') : undefined,
            servername: 'localhost',
        });
        await once(session, 'remoteSettings');
        assert(session.remoteSettings.enableConnectProtocol, 'weir offers no extended CONNECT');
    }
    const stream = session.request({
        ':method': 'CONNECT',
        ':protocol': 'websocket',
        ':scheme': tls ? 'https' : 'http',
        ':authority': authority,
        ':path': path,
        'sec-websocket-version': '13',
    });
    const [headers] = await once(stream, 'response');
    assert.strictEqual(headers[':status'], 200);
    assert.strictEqual(headers['sec-websocket-accept'], undefined);
    return onStream(stream, false);
}

const open = (client, path, options) => (client === 'h2' ? openH2(path) : openH1(path, options));

const sizeOf = (i) => (i % 500 === 499 ? MIB : i % 50 === 49 ? 65536 + i : [0, 1, 125, 126, 1000, 4096][i % 6]);

// COUNT messages of mixed sizes come back as they went, in order. At most 64 are on their way.
async function echo(ws, count, size) {
    const whole = pattern(MIB + 251, 0);
    const message = (i) => whole.subarray(i % 251, (i % 251) + size(i));
    let sent = 0;
    const more = () => {
        ws.send(message(sent), { binary: true });
        sent++;
    };
    const over = new Promise((done, failed) => {
        let got = 0;
        ws.on('error', failed);
        ws.on('close', (code) => failed(new Error(`closed with ${code} after ${got} messages`)));
        ws.on('message', (data) => {
            if (!data.equals(message(got))) failed(new Error(`message ${got} came back changed`));
            if (++got === count) done();
            if (sent < count) more();
        });
    });
    while (sent < Math.min(64, count)) more();
    await over;
    ws.removeAllListeners('close');
}

async function close(ws) {
    const before = seen.closed.length;
    ws.close(4321, 'enough');
    const [code] = await once(ws, 'close');
    assert.strictEqual(code, 4321);
    await until(() => seen.closed.length > before);
    assert.strictEqual(seen.closed[before], '4321 enough');
}

const cases = {};
for (const client of ['h1', 'h2']) {
    for (const server of ['h1', 'h2']) {
        cases[`echo_${client}_${server}`] = async () => {
            const ws = await open(client, `/${server}`);
            await echo(ws, 10000, sizeOf);
            await close(ws);
        };
        cases[`many_${client}_${server}`] = async () => {
            const all = await Promise.all(Array.from({ length: 50 }, () => open(client, `/${server}`)));
            await Promise.all(all.map((ws) => echo(ws, 100, (i) => (i * 37) % 5000)));
            // One that is cut takes no other with it.
            all[0].terminate();
            await until(() => seen.closed.length === 1);
            assert.notStrictEqual(seen.closed[0], '4321 enough');
            await Promise.all(all.slice(1).map((ws) => echo(ws, 10, () => 10)));
            for (const ws of all.slice(1)) await close(ws);
        };
    }
}
// What the ends agree on between them: compression, and a subprotocol.
cases.extension_h1_h1 = async () => {
    const ws = await openH1('/h1', { perMessageDeflate: true, protocol: 'chat' });
    assert(ws.extensions.includes('permessage-deflate'));
    await echo(ws, 1000, (i) => i * 13);
    await close(ws);
};

serve().then(() => main(cases));
