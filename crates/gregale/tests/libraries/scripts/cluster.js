// ioredis in cluster mode finds all members, and goes on when one dies.
const Redis = require('ioredis');
const { ports, run } = require('./cluster_rounds.js');

const client = new Redis.Cluster(ports.map((port) => ({ host: '127.0.0.1', port })), {
  clusterRetryStrategy: () => 100,
  redisOptions: { connectTimeout: 5000, maxRetriesPerRequest: null },
});
run(client, () => client.nodes('master').map((node) => node.options.port));
