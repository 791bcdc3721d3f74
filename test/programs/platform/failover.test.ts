import { expect } from 'chai';
import { redisOrSkip, type TestRedis } from '../../support/redis.ts';
import { type ReplicatedPostgres, replicatedPostgresOrSkip } from '../../support/replicated-postgres.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.ts';
import { asOwner } from '../../support/test-postgres.ts';
import { run, type RunOptions } from '../faults/run.ts';
import { violations } from '../faults/violations.ts';

/** How long the primary is gone before the standby is promoted. */
const AWAY_MS = 4000;

describe('three servers under load whose Postgres fails over to its standby', function () {
  this.timeout(240_000);
  let redis: TestRedis;
  let postgres: ReplicatedPostgres;
  let proxy: TcpProxy;
  /** Where the proxy leads, as an address that moves from server to server does. */
  let behind: { host: string; port: number };

  beforeEach(async function () {
    redis = await redisOrSkip(this);
    postgres = await replicatedPostgresOrSkip(this);
    behind = { host: '127.0.0.1', port: postgres.primary.port };
    proxy = await startTcpProxy(behind);
  });
  afterEach(async () => {
    await proxy?.cut();
    await postgres?.remove();
    await redis?.remove();
  });

  async function failOver(options: Pick<RunOptions, 'toldDatabase' | 'postgres'>): Promise<void> {
    const lines: string[] = [];
    const ownerUrl = postgres.ownerUrl(proxy.port);
    const { record, counts } = await run({
      rounds: [
        {
          faults: [{ kind: 'restart', service: 'postgres', startsMs: 4000, lastsMs: AWAY_MS }],
          pauseMs: 5000,
        },
      ],
      database: { ownerUrl, appUrl: postgres.appUrl(proxy.port) },
      redis,
      simulatedAgents: 24,
      realAgents: 1,
      commandsPerSecond: 8,
      queriesPerSecond: 4,
      churnMs: 700,
      restMs: 60_000,
      tell: (line) => lines.push(line),
      ...options,
    });
    const story = [...lines, ...counts.map(([what, count]) => `${count}  ${what}`)].join('\n');
    // Whoever wants to see figures.
    if (process.env['FAULTS_TOLD'] !== undefined) process.stdout.write(`${story}\n`);
    expect(violations(record), story).to.deep.equal([]);
    const counted = new Map(counts);
    // Somebody has noticed it, and been told the truth: nothing that a server knows to be a fault of its own.
    expect(counted.get('answers: command 503'), story).to.be.above(0);
    const faults = [...counted.keys()].filter((what) =>
      /^(answers: .* 5(?!03)|logged: (error|fatal))/.test(what),
    );
    expect(faults, story).to.deep.equal([]);
    expect(
      counted.get('acknowledged more than once'),
      'posts that were repeated after their acknowledgement',
    ).to.be.above(0);
    // The servers have ended: no lock of a session is left.
    const locks = await asOwner(ownerUrl, `select pid from pg_locks where locktype = 'advisory'`);
    expect(locks).to.deep.equal([]);
  }

  it('answer 503 meanwhile, lose nothing and do nothing twice, when the address leads to the standby before its promotion', async () => {
    const { primary, standby } = postgres;
    await failOver({
      postgres: {
        async stop() {
          await primary.kill();
          behind.port = standby.port;
        },
        start: () => standby.promote(),
      },
    });
  });

  it('find it by themselves among the servers that DATABASE_URL names, and leave the former primary alone when it is back', async () => {
    const { primary, standby } = postgres;
    const named = (url: string) =>
      url.replace(`:${proxy.port}/`, `:${primary.port},127.0.0.1:${standby.port}/`);
    const commandsOf = async ({ port }: { port: number }) =>
      (await asOwner<{ count: number }>(postgres.ownerUrl(port), 'select count(*)::int from commands'))[0]
        ?.count;
    let left: number | undefined;
    await failOver({
      toldDatabase: {
        ownerUrl: named(postgres.ownerUrl(proxy.port)),
        appUrl: named(postgres.appUrl(proxy.port)),
      },
      postgres: {
        async stop() {
          await primary.kill();
          behind.port = standby.port;
        },
        async start() {
          await standby.promote();
          // It takes writes as before, without waiting for any standby: whatever it is told would be lost.
          await primary.configure(`synchronous_standby_names = ''`);
          await primary.start();
          left = await commandsOf(primary);
        },
      },
    });
    expect(left, 'commands of the former primary').to.be.above(0);
    expect(await commandsOf(primary)).to.equal(left);
    expect(await commandsOf(standby)).to.be.above(left ?? 0);
  });
});
