import { createTestApp } from '../../../test/support/test-app.ts';
import { createLogger } from '../../../src/platform/logger.ts';
import { answerMeasurements } from './measured.ts';

/**
 * The real server, as `npm start` composes it. Admission control and grace period have their defaults unless a figure
 * changes them.
 */

const {
  BENCH_OWNER_URL = '',
  BENCH_APP_URL = '',
  BENCH_ADMIT_PER_SECOND = '',
  BENCH_HEARTBEAT_SECONDS = '60',
  BENCH_REDIS_URL = '',
  BENCH_AGENT_WIRE = 'direct',
} = process.env;
const perSecond = Number(BENCH_ADMIT_PER_SECOND);

const app = await createTestApp({
  database: { ownerUrl: BENCH_OWNER_URL, appUrl: BENCH_APP_URL, drop: async () => {} },
  env: {
    AGENT_HEARTBEAT_SECONDS: BENCH_HEARTBEAT_SECONDS,
    AGENT_WIRE: BENCH_AGENT_WIRE,
    ...(BENCH_REDIS_URL === '' ? {} : { REDIS_URL: BENCH_REDIS_URL }),
  },
  graceMs: 5000,
  ...(BENCH_ADMIT_PER_SECOND === '' ? {} : { admission: { perSecond, burst: perSecond } }),
  log: createLogger('warn'),
});
answerMeasurements();
process.send?.(app.url);
// The load generator owns the agents, so the server does not wait for them.
process.once('disconnect', () => process.exit(0));
