// node-redis in cluster mode finds all members, and goes on when one dies.
const { createCluster } = require('redis');
const readline = require('node:readline');

const PATIENCE_MS = 60_000;
const ports = process.argv.slice(2).map(Number);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const client = createCluster({
  rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })),
  defaults: { socket: { connectTimeout: 5000, reconnectStrategy: () => 50 } },
});
client.on('error', (error) => console.log('again after', error.message));

async function patiently(call) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      console.log('again after', error.message);
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

async function main() {
  await patiently(() => client.connect());
  const keys = [...Array(60).keys()].map((n) => `key:${n}`);
  for (const key of keys) await patiently(() => client.set(key, 'before'));
  const used = new Set(client.masters.map((node) => node.port));
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
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
