// A process that owns an embedded Postgres, for tests that kill it. Prints one line once it is started or has failed.
import { pino } from 'pino';
import { startEmbeddedPostgres } from '../../../src/platform/db/embedded/index.ts';

const [dataDir = '', nativeDir] = process.argv.slice(2);
const log = pino({ level: 'silent' });
try {
  const changes = nativeDir === undefined ? {} : { nativeDir };
  const { stop, ...started } = await startEmbeddedPostgres({ dataDir, log, durable: false }, changes);
  process.stdout.write(`${JSON.stringify(started)}\n`);
  process.stdin.once('data', () => {
    void stop().then(() => process.stdin.destroy());
  });
} catch (error) {
  const { code, message } = error as { code: string; message: string };
  process.stdout.write(`${JSON.stringify({ code, message })}\n`);
}
