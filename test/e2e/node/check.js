// What the scripts share: they are called as <script> <weir's folder> <port> <tls|plain> <case>, hold the upstream and the client in
// one process, and end with 0 and "passed" or tell what was wrong.
'use strict';
const fs = require('fs');
const path = require('path');

const [dir, port, security, name] = process.argv.slice(2);

exports.dir = dir;
exports.port = Number(port);
exports.tls = security === 'tls';
exports.read = (file) => fs.readFileSync(path.join(dir, file));
exports.socket = (file) => path.join(dir, file);

// Bytes that repeat after a prime, so that what is lost or twice there shows.
exports.pattern = (size, seed) => {
    const block = Buffer.from({ length: 251 }, (_, i) => (i + seed) % 251);
    return Buffer.alloc(size, block);
};

// Resolves once CONDITION() holds; the time limit of the whole is the C side's.
exports.until = async (condition) => {
    while (!condition()) await new Promise((done) => setTimeout(done, 5));
};

exports.main = async (cases) => {
    process.on('unhandledRejection', (error) => {
        console.error(error);
        process.exit(1);
    });
    await cases[name]();
    console.log('passed');
    process.exit(0);
};
