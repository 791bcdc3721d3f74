import { connectLive } from '../src/index.ts';

/** Reads the newest errors of a log on several devices at once: `npx tsx read-event-log.ts System <device id> …`. */

const { MUSTER_URL: server = 'http://127.0.0.1:3000', MUSTER_KEY: token = '' } = process.env;
const [name = 'System', ...deviceIds] = process.argv.slice(2);
const live = await connectLive({ server, token });
// Ctrl+C ends the query on the devices, too.
const interruption = new AbortController();
process.once('SIGINT', () => interruption.abort());

try {
  const query = { deviceIds, name, level: ['error' as const], limit: 20 };
  for await (const item of live.queryEventLogs(query, { signal: interruption.signal })) {
    if (item.type === 'entry') {
      console.log(JSON.stringify({ deviceId: item.deviceId, ...item.entry }));
    } else {
      console.error(`${item.deviceId}: ${item.outcome}, ${item.rows} entries`);
      if (item.outcome !== 'answered') process.exitCode = 1;
    }
  }
} finally {
  live.close();
}
