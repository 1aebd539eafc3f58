// ioredis with a database: its keys are in that one, at every member, and in no other.
const Redis = require('ioredis');
const { ports } = require('./cluster_rounds.js');

function same(what, found, expected) {
  if (found !== expected) throw new Error(`${what} is ${found}, not ${expected}`);
}

async function main() {
  for (const [at, port] of ports.entries()) {
    const next = ports[(at + 1) % ports.length];
    const own = new Redis({ port, db: 1 });
    await own.set('k', `of ${port}`);
    same('k in database 0', await new Redis({ port, db: 0 }).get('k'), null);
    same('k in database 1', await new Redis({ port: next, db: 1 }).get('k'), `of ${port}`);
  }
  // Which database has it is not a matter of the client alone.
  await new Redis({ port: ports[0], db: 0 }).flushdb();
  const left = await new Redis({ port: ports[0], db: 1 }).get('k');
  same('k after FLUSHDB of another', left, `of ${ports.at(-1)}`);
  console.log('well');
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
