import { createTestApp } from '../../test/support/test-app.ts';
import { quietLog } from '../../test/support/quiet-log.ts';

/** The real server, as `npm start` composes it. */

const { BENCH_OWNER_URL = '', BENCH_APP_URL = '', BENCH_POOL = '10' } = process.env;
const app = await createTestApp({
  database: { ownerUrl: BENCH_OWNER_URL, appUrl: BENCH_APP_URL, drop: async () => {} },
  env: { DATABASE_POOL_SIZE: BENCH_POOL },
  log: quietLog,
});
process.send?.(app.url);
process.once('disconnect', () => void app.close());
