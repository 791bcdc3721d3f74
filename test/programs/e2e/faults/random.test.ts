import { expect } from 'chai';
import { run } from '../../faults/run.ts';
import { schedule } from '../../faults/schedule.ts';
import { violations } from '../../faults/violations.ts';
import { redisOrSkip, type TestRedis } from '../../../support/redis.ts';
import { createTestDatabase, type TestDatabase } from '../../../support/test-postgres.ts';

/** Another one may be tried by hand: FAULTS_SEED=7 npx mocha test/programs/e2e/faults/random.test.ts */
const SEED = Number(process.env['FAULTS_SEED'] ?? 84);
/** Three to six faults, none of them long. */
const FAULTS_MS = 14_000;
const LONGEST_MS = 2500;

describe('three servers under load while random parts fail', function () {
  this.timeout(180_000);
  let redis: TestRedis;
  let database: TestDatabase;

  before(async function () {
    redis = await redisOrSkip(this);
    database = await createTestDatabase();
  });
  after(async () => {
    await database?.drop();
    await redis?.remove();
  });

  it(`break no promise (seed ${SEED}; npm run test:faults is the long form)`, async () => {
    const lines: string[] = [];
    const rounds = schedule(SEED, {
      totalMs: FAULTS_MS,
      longestMs: LONGEST_MS,
      mayRestartPostgres: false,
      // Clients whose connection is silent need most of a minute to find out.
      without: (target) => target.kind === 'black-hole' && target.link === 'clients',
    });
    const { record } = await run({
      rounds,
      database,
      redis,
      simulatedAgents: 24,
      realAgents: 1,
      commandsPerSecond: 5,
      queriesPerSecond: 5,
      churnMs: 500,
      restMs: 45_000,
      tell: (line) => lines.push(line),
    });
    // Whoever tries a seed wants to see what it does.
    if (process.env['FAULTS_SEED'] !== undefined) process.stdout.write(`${lines.join('\n')}\n`);
    expect(violations(record), lines.join('\n')).to.deep.equal([]);
    expect(record.queries.length, 'live queries that were answered').to.be.above(0);
    expect(record.effects.length, 'effects that happened').to.be.above(0);
  });
});
