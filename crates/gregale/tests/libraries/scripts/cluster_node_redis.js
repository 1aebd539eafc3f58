// node-redis in cluster mode finds all members, and goes on when one dies.
const { createCluster } = require('redis');
const { ports, run } = require('./cluster_rounds.js');

const client = createCluster({
  rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })),
  defaults: { socket: { connectTimeout: 5000, reconnectStrategy: () => 50 } },
});
run(client, () => client.masters.map((node) => node.port), () => client.connect());
