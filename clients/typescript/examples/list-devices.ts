import { createClient } from '../src/index.ts';

/** Lists all devices that the key may see: `MUSTER_URL=… MUSTER_KEY=… npx tsx list-devices.ts`. */

const { MUSTER_URL: server = 'http://127.0.0.1:3000', MUSTER_KEY: token = '' } = process.env;
const muster = createClient({ server, token });

for await (const { hostname, status, agentVersion } of muster.list('GET /devices', {
  query: { sort: 'hostname', order: 'asc' },
})) {
  console.log(`${hostname}\t${status}\t${agentVersion}`);
}
