// gRPC by grpc-js: a client, weir, a server on a Unix socket.
'use strict';
const assert = require('assert');
const { once } = require('events');
const grpc = require('@grpc/grpc-js');
const { port, tls, read, socket, pattern, until, main } = require('./check.js');

const MIB = 1024 * 1024;
const seen = { cancelled: 0, hanging: 0, deadline: null };

const bytes = (x) => x;
const method = (name, requestStream, responseStream) => ({
    path: `/weir.Test/${name}`,
    requestStream,
    responseStream,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
});
const service = {
    echo: method('Echo', false, false),
    fail: method('Fail', false, false),
    hang: method('Hang', false, false),
    upload: method('Upload', true, false),
    download: method('Download', false, true),
    endless: method('Endless', false, true),
    chat: method('Chat', true, true),
};

const implementation = {
    echo(call, done) {
        const trailer = new grpc.Metadata();
        const asked = call.metadata.get('x-ask');
        if (asked.length) call.sendMetadata(call.metadata);
        trailer.set('x-size', String(call.request.length));
        trailer.set('x-raw-bin', Buffer.from([0, 255, 10, 13]));
        done(null, call.request, trailer);
    },
    fail(call, done) {
        const metadata = new grpc.Metadata();
        metadata.set('x-why', 'asked for');
        done({ code: grpc.status.FAILED_PRECONDITION, details: 'no: ä % \n', metadata });
    },
    hang(call) {
        seen.hanging++;
        seen.deadline = call.getDeadline();
        call.on('cancelled', () => seen.cancelled++);
    },
    upload(call, done) {
        let total = 0;
        let messages = 0;
        call.on('data', (message) => {
            total += message.length;
            messages++;
        });
        call.on('end', () => done(null, Buffer.from(`${messages} ${total}`)));
    },
    async download(call) {
        const [count, size] = call.request.toString().split(' ').map(Number);
        for (let i = 0; i < count; i++) {
            if (!call.write(pattern(size, i))) await once(call, 'drain');
        }
        call.end();
    },
    async endless(call) {
        let over = false;
        const cancelled = once(call, 'cancelled').then(() => {
            over = true;
            seen.cancelled++;
        });
        while (!over) {
            const ready = call.write(pattern(16384, 0));
            if (ready) await new Promise(setImmediate);
            else await Promise.race([once(call, 'drain'), cancelled]);
        }
    },
    chat(call) {
        call.on('data', (message) => call.write(message));
        call.on('end', () => call.end());
        call.on('cancelled', () => seen.cancelled++);
    },
};

function serve() {
    const server = new grpc.Server();
    const credentials = tls
        ? grpc.ServerCredentials.createSsl(null, [{ cert_chain: read('cert.pem'), private_key: read('key.pem') }])
        : grpc.ServerCredentials.createInsecure();
    server.addService(service, implementation);
    return new Promise((done, failed) =>
        server.bindAsync(`unix:${socket('upstream.sock')}`, credentials, (error) => (error ? failed(error) : done()))
    );
}

function connect(extra) {
    const Client = grpc.makeGenericClientConstructor(service, 'weir.Test');
    const credentials = tls ? grpc.credentials.createSsl(read('cert.pem')) : grpc.credentials.createInsecure();
    return new Client(`127.0.0.1:${port}`, credentials, {
        'grpc.enable_http_proxy': 0,
        'grpc.enable_retries': 0,
        'grpc.ssl_target_name_override': 'localhost',
        ...extra,
    });
}

// One call's end: {error, reply, headers, status}.
function unary(client, name, message, options, metadata) {
    return new Promise((done) => {
        const end = {};
        const call = client[name](message, metadata || new grpc.Metadata(), options || {}, (error, reply) => {
            end.error = error;
            end.reply = reply;
            if (end.status) done(end);
        });
        call.on('metadata', (headers) => (end.headers = headers));
        call.on('status', (status) => {
            end.status = status;
            if ('error' in end) done(end);
        });
    });
}

const messagesOf = (call) =>
    new Promise((done, failed) => {
        const messages = [];
        call.on('data', (message) => messages.push(message));
        call.on('error', failed);
        call.on('end', () => done(messages));
    });

async function expectEcho(client, message) {
    const { error, reply } = await unary(client, 'echo', message);
    assert.ifError(error);
    assert(reply.equals(message), `${message.length} bytes came back changed`);
}

const cases = {
    async unary() {
        const client = connect();
        const metadata = new grpc.Metadata();
        metadata.set('x-ask', 'this');
        metadata.set('x-ask-bin', Buffer.from([0, 1, 254, 255]));
        const { error, reply, headers, status } = await unary(client, 'echo', pattern(1000, 1), {}, metadata);
        assert.ifError(error);
        assert(reply.equals(pattern(1000, 1)));
        assert.deepStrictEqual(headers.get('x-ask'), ['this']);
        assert(headers.get('x-ask-bin')[0].equals(Buffer.from([0, 1, 254, 255])));
        assert.deepStrictEqual(status.metadata.get('x-size'), ['1000']);
        assert(status.metadata.get('x-raw-bin')[0].equals(Buffer.from([0, 255, 10, 13])));
        await expectEcho(client, Buffer.alloc(0));
    },
    async client_streaming() {
        const client = connect();
        await new Promise((done) => {
            const call = client.upload((error, reply) => {
                assert.ifError(error);
                assert.strictEqual(reply.toString(), '1000 10000000');
                done();
            });
            for (let i = 0; i < 1000; i++) call.write(pattern(10000, i));
            call.end();
        });
    },
    async server_streaming() {
        const messages = await messagesOf(connect().download(Buffer.from('1000 10000')));
        assert.strictEqual(messages.length, 1000);
        messages.forEach((message, i) => assert(message.equals(pattern(10000, i))));
    },
    // A message each way, one after the other: nothing may wait for more, then many at once.
    async bidirectional() {
        const call = connect().chat();
        const got = [];
        call.on('data', (message) => got.push(message));
        const over = new Promise((done) => call.on('status', done));
        for (let i = 0; i < 500; i++) {
            call.write(pattern(i, i));
            await once(call, 'data');
        }
        for (let i = 500; i < 1500; i++) call.write(pattern(i, i));
        call.end();
        assert.strictEqual((await over).code, grpc.status.OK);
        assert.strictEqual(got.length, 1500);
        got.forEach((message, i) => assert(message.equals(pattern(i, i))));
    },
    async error() {
        const client = connect();
        const { error, headers } = await unary(client, 'fail', pattern(10, 0));
        assert.strictEqual(error.code, grpc.status.FAILED_PRECONDITION);
        assert.strictEqual(error.details, 'no: ä % \n');
        assert.deepStrictEqual(error.metadata.get('x-why'), ['asked for']);
        assert.strictEqual(headers, undefined, 'trailers only became head and trailers');
        await expectEcho(client, pattern(10, 0));
    },
    async unimplemented() {
        const client = connect();
        const { error } = await new Promise((done) =>
            client.makeUnaryRequest('/weir.Test/None', bytes, bytes, pattern(1, 0), (e) => done({ error: e }))
        );
        assert.strictEqual(error.code, grpc.status.UNIMPLEMENTED);
    },
    async deadline() {
        const client = connect();
        const deadline = Date.now() + 400;
        const { error } = await unary(client, 'hang', pattern(1, 0), { deadline });
        assert.strictEqual(error.code, grpc.status.DEADLINE_EXCEEDED);
        await until(() => seen.cancelled === 1);
        assert(Math.abs(Number(seen.deadline) - deadline) < 300, 'the server was told of another deadline');
        await expectEcho(client, pattern(10, 0));
    },
    async cancel() {
        const client = connect();
        const calls = Array.from({ length: 20 }, () => client.hang(pattern(1, 0), () => {}));
        await until(() => seen.hanging === 20);
        calls.slice(0, 10).forEach((call) => call.cancel());
        await until(() => seen.cancelled === 10);
        await expectEcho(client, pattern(10, 0));
        assert.strictEqual(seen.cancelled, 10, 'others were cancelled with them');
        calls.slice(10).forEach((call) => call.cancel());
        await until(() => seen.cancelled === 20);
    },
    // The whole client goes away.
    async leave() {
        const client = connect({ 'grpc.use_local_subchannel_pool': 1 });
        for (let i = 0; i < 10; i++) client.chat().on('error', () => {}).write(pattern(1, 0));
        client.hang(pattern(1, 0), () => {});
        await until(() => seen.hanging === 1);
        client.getChannel().close();
        await expectEcho(connect({ 'grpc.use_local_subchannel_pool': 1 }), pattern(10, 0));
    },
    // In the midst of streaming: nothing more is asked of the server.
    async cancel_stream() {
        const client = connect();
        const call = client.endless(pattern(1, 0));
        let got = 0;
        call.on('error', (error) => assert.strictEqual(error.code, grpc.status.CANCELLED));
        call.on('data', () => got++);
        await until(() => got >= 200);
        call.cancel();
        await until(() => seen.cancelled === 1);
        await expectEcho(client, pattern(10, 0));
    },
    async large() {
        const client = connect();
        await expectEcho(client, pattern(3 * MIB, 7));
        await Promise.all([1, 2, 3, 4, 5].map((seed) => expectEcho(client, pattern(3 * MIB, seed))));
        const call = client.chat();
        const messages = messagesOf(call);
        for (let i = 0; i < 5; i++) call.write(pattern(3 * MIB, i));
        call.end();
        (await messages).forEach((message, i) => assert(message.equals(pattern(3 * MIB, i))));
        assert.strictEqual((await messages).length, 5);
    },
    async concurrent() {
        const clients = Array.from({ length: 4 }, () => connect({ 'grpc.use_local_subchannel_pool': 1 }));
        const size = (i) => (i % 50 === 0 ? 200000 : i % 1000);
        const calls = [];
        for (let i = 0; i < 4000; i++) calls.push(expectEcho(clients[i % 4], pattern(size(i), i)));
        await Promise.all(calls);
    },
};


serve().then(() => main(cases));
