// What a client in cluster mode does while members die. The test kills one after each 'kill'.
const readline = require('node:readline');

const PATIENCE_MS = 60_000;
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// The ports of the members.
const ports = process.argv.slice(2).map(Number);

function says(error) {
  console.log('again after', error.message);
}

async function patiently(call) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      says(error);
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

// `portsInUse` tells which members the client has found, once it has used some keys.
async function rounds(client, portsInUse, connect) {
  client.on('error', says);
  await patiently(connect);
  const keys = [...Array(60).keys()].map((n) => `key:${n}`);
  for (const key of keys) await patiently(() => client.set(key, 'before'));
  const used = new Set(portsInUse());
  for (const port of ports) if (!used.has(port)) throw new Error(`${port} is not used`);
  for (let round = 0; round < 3; round++) {
    console.log('kill');
    await lines.next();
    for (const key of keys) await patiently(() => client.set(key, `after ${round}`));
    for (const key of keys) {
      const found = await patiently(() => client.get(key));
      if (found !== `after ${round}`) throw new Error(`${key} is ${found}`);
    }
  }
  console.log('well');
}

function run(client, portsInUse, connect = async () => {}) {
  rounds(client, portsInUse, connect).then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { ports, run };
