import { expect } from 'chai';
import { BundleReader, type BundleReport } from '../../../../src/features/audit/bundle.ts';
import { checksumOf } from '../../../../src/features/audit/chain.ts';
import { exportBundle } from '../../../../src/features/audit/export.service.ts';
import { NameIndexCompactor } from '../../../../src/features/audit/index.ts';
import { NameIndexCache } from '../../../../src/features/audit/name-index.ts';
import { AuditPruner, type AuditPrunerOptions } from '../../../../src/features/audit/audit-pruner.ts';
import { dueChains, recordPruning } from '../../../../src/features/audit/audit-retention.queries.ts';
import { addAuditJobs } from '../../../../src/features/audit/audit.work.ts';
import { cutChain, nextPortion, RetentionFailure } from '../../../../src/features/audit/prune-chain.ts';
import { readEntries } from '../../../../src/features/audit/stored-chains.queries.ts';
import { checkStored } from '../../../../src/features/audit/stored-check.ts';
import { openSession } from '../../../../src/platform/db/pool.ts';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { createJobs } from '../../../../src/platform/jobs/jobs.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { quietLog, recordingLog } from '../../../support/quiet-log.ts';
import { type AuditBench, createAuditBench } from '../../../support/audit/audit-support.ts';

const SIZES = { portion: 10, step: 4 };

describe('pruning of the audit trail', function () {
  let bench: AuditBench;
  beforeEach(async () => {
    bench = await createAuditBench();
  });
  afterEach(() => bench.close());

  const job = (options: Partial<AuditPrunerOptions> = {}) =>
    new AuditPruner({
      db: bench.db,
      adminUrl: bench.database.auditAdminUrl,
      keys: bench.keys,
      archive: undefined,
      log: quietLog,
      sizes: SIZES,
      ...options,
    });
  const fill = async (...parts: Parameters<AuditBench['add']>[]) => {
    for (const part of parts) {
      await bench.add(...part);
      await bench.sealer.flush();
    }
  };
  const left = async (chainId = bench.orgId) =>
    (
      await bench.owner<{ seq: number; linked: boolean }>(
        'select seq::int, prev_checksum is not null as linked from audit_logs where chain_id = $1 order by seq',
        [chainId],
      )
    ).map(({ seq, linked }) => (linked ? seq : `${seq} unlinked`));
  const faults = async () => (await checkStored(bench.db, { own: bench.keys })).faults;
  async function bundleReport(chainId = bench.orgId): Promise<BundleReport> {
    const reader = new BundleReader();
    await exportBundle(bench.db, chainId, (line) => reader.line(line));
    return reader.end();
  }
  /** As somebody with all rights over the database. */
  const tamper = (sql: string) =>
    bench.owner(
      `begin; alter table audit_logs disable trigger user; ${sql}; alter table audit_logs enable trigger user; commit`,
    );
  const failureOf = async (orgId = bench.orgId) =>
    (
      await bench.owner<{ failure: string | null; cleaned: boolean }>(
        'select last_failure as failure, last_cleanup_at is not null as cleaned from audit_retention_policies where org_id = $1',
        [orgId],
      )
    )[0];
  const keep = (days: number, orgId = bench.orgId) =>
    bench.owner(
      `insert into audit_retention_policies (org_id, retention_days) values ($1, $2)
      on conflict (org_id) do update set retention_days = excluded.retention_days`,
      [orgId, days],
    );

  it('removes what is too old, in steps, and what is left is still proven, here and in a bundle', async () => {
    await fill([25, { daysAgo: 400 }], [5, { daysAgo: 364 }]);
    expect(await job().prune()).to.deep.equal({ ran: 'here', removed: 25, failed: 0 });
    expect(await left()).to.deep.equal(['26 unlinked', 27, 28, 29, 30]);
    expect(await faults()).to.deep.equal([]);
    const { fault, entries } = await bundleReport();
    expect([fault, entries]).to.deep.equal([undefined, 5]);
    const cuts = await bench.owner(
      `select seq::int from audit_checkpoints where kind = 'cut' order by number`,
    );
    expect(cuts.map(({ seq }) => seq)).to.deep.equal([4, 8, 10, 14, 18, 20, 24, 25]);

    await fill([3]);
    await keep(30);
    expect(await job().prune()).to.include({ removed: 5 });
    expect(await left()).to.deep.equal(['31 unlinked', 32, 33]);
    expect(await faults()).to.deep.equal([]);
    expect(await failureOf()).to.deep.equal({ failure: null, cleaned: true });
    await tamper('update audit_logs set action = action || 1 where seq = 31');
    expect((await faults()).map(({ seq }) => seq)).to.deep.equal([31]);
  });

  it('notes for each organization how its last run has ended, and when it last succeeded', async () => {
    const other = await bench.organization();
    const record = (failures: [orgId: string, reason: string][], unfinished: string[] = []) =>
      withSystem(bench.db, 'test', (tx) => recordPruning(tx, { failures: new Map(failures), unfinished }));
    const outcome = async (orgId: string) =>
      (
        await bench.owner<{ cleaned: Date | null; failed: Date | null; reason: string | null }>(
          `select last_cleanup_at as cleaned, last_failure_at as failed, last_failure as reason
          from audit_retention_policies where org_id = $1`,
          [orgId],
        )
      )[0];
    await record([[bench.orgId, 'first']], [other]);
    const failed = await outcome(bench.orgId);
    expect(failed).to.include({ cleaned: null, reason: 'first' });
    expect(await outcome(other), 'left unfinished').to.equal(undefined);
    await record([]);
    const cleaned = await outcome(bench.orgId);
    expect(cleaned).to.include({ failed: null, reason: null });
    expect(cleaned?.cleaned).to.be.instanceOf(Date);
    await record([[bench.orgId, 'second']]);
    const again = await outcome(bench.orgId);
    expect(again).to.deep.include({ cleaned: cleaned?.cleaned, reason: 'second' });
    expect(again?.failed?.getTime()).to.be.greaterThan(failed?.failed?.getTime() ?? 0);
    await record([[bench.orgId, 'third']]);
    expect((await outcome(bench.orgId))?.reason).to.equal('third');
    await record([], [bench.orgId]);
    expect((await outcome(bench.orgId))?.reason, 'left unfinished').to.equal('third');
  });

  it('can remove all there is, and the chain goes on behind it', async () => {
    await fill([12, { daysAgo: 400 }]);
    expect(await job().prune()).to.include({ removed: 12 });
    expect(await left()).to.deep.equal([]);
    expect(await faults()).to.deep.equal([]);
    await fill([2]);
    expect(await left()).to.deep.equal([13, 14]);
    expect(await faults()).to.deep.equal([]);
  });

  it('leaves no gap: a younger entry keeps those behind it', async () => {
    await fill([3, { daysAgo: 400 }], [1, { daysAgo: 1 }], [6, { daysAgo: 400 }]);
    expect(await job().prune()).to.include({ removed: 3 });
    expect(await left()).to.deep.equal(['4 unlinked', 5, 6, 7, 8, 9, 10]);
    expect(await job().prune()).to.include({ removed: 0 });
  });

  it('goes by the rule of each organization', async () => {
    const other = await bench.organization();
    await keep(100);
    await fill([2, { daysAgo: 200 }], [2, { daysAgo: 200, orgId: other }]);
    expect(await job().prune()).to.include({ removed: 2 });
    expect([await left(), await left(other)]).to.deep.equal([[], ['1 unlinked', 2]]);
  });

  it('keeps what is a partner’s own as long as the longest kept of its organizations, and then removes it', async () => {
    await bench.organization();
    await fill([3, { daysAgo: 500, orgId: null }], [2, { daysAgo: 400, orgId: null }]);
    await keep(700);
    expect(await job().prune()).to.include({ removed: 0 });
    await keep(450);
    expect(await job().prune()).to.include({ removed: 3, failed: 0 });
    expect(await left(bench.partnerId)).to.deep.equal(['4 unlinked', 5]);
    // The other organization keeps its own for the 365 days of the default.
    await keep(30);
    expect(await job().prune()).to.include({ removed: 2, failed: 0 });
    expect(await left(bench.partnerId)).to.deep.equal([]);
    expect(await faults()).to.deep.equal([]);
  });

  it('asks for copies of a partner’s own, and of the system’s, if one of their organizations does', async () => {
    const system = '00000000-0000-0000-0000-000000000000';
    const other = await bench.organization();
    await fill(...[bench.orgId, other, null].map((orgId): [number, object] => [1, { daysAgo: 800, orgId }]));
    await bench.owner(
      `insert into audit_outbox (id, actor_type, actor_id, action, resource_type, result, "timestamp")
      values (gen_random_uuid(), 'system', gen_random_uuid(), 'a', 'x', 'success', now() - interval '800 days')`,
    );
    await bench.sealer.flush();
    const due = async () => {
      const chains = await withSystem(bench.db, 'test', dueChains);
      return new Map(chains.map(({ chainId, archives }) => [chainId, archives]));
    };
    const chains = [bench.orgId, other, bench.partnerId, system];
    expect(await due()).to.deep.equal(new Map(chains.sort().map((chainId) => [chainId, false])));
    await keep(30);
    await bench.owner('update audit_retention_policies set archive_to_s3 = true');
    const archived = await due();
    expect(chains.filter((chainId) => archived.get(chainId) === true)).to.have.members([
      bench.orgId,
      bench.partnerId,
      system,
    ]);
    expect(archived.get(other)).to.equal(false);
  });

  it('removes from the chain of the whole system too', async () => {
    await bench.owner(
      `insert into audit_outbox (id, actor_type, actor_id, action, resource_type, result, "timestamp")
      select gen_random_uuid(), 'system', gen_random_uuid(), 'a', 'x', 'success', now() - make_interval(days => n)
      from unnest(array[400, 300]) n`,
    );
    await bench.sealer.flush();
    expect(await job().prune()).to.include({ removed: 1, failed: 0 });
    expect(await left('00000000-0000-0000-0000-000000000000')).to.deep.equal(['2 unlinked']);
    expect(await faults()).to.deep.equal([]);
  });

  describe('and the names in it', () => {
    const names = async () => {
      const [found] = await bench.owner<{ resources: string[]; actors: string[]; sheets: string[] }>(
        `select array(select resource_name from audit_resources where resource_name is not null order by 1) as resources,
          array(select actor_email from audit_actors where actor_email is not null group by 1 order by 1) as actors,
          array(select name from audit_name_sheets, unnest(names) name order by 1) as sheets`,
      );
      return found!;
    };
    /** One entry about a device, by somebody. */
    const entry = async (name: string, email: string, daysAgo: number, actor = ACTOR) => {
      await bench.owner(
        `insert into audit_outbox (id, org_id, partner_id, actor_type, actor_id, actor_email, action, resource_type,
          resource_name, result, "timestamp")
        values (gen_random_uuid(), $1, $2, 'user', $3, $4, 'a', 'device', $5, 'success', now() - make_interval(days => $6))`,
        [bench.orgId, bench.partnerId, actor, email, name, daysAgo],
      );
      await bench.sealer.flush();
    };
    const ACTOR = '01a1fd47-0000-7000-8000-00000000000a';

    it('leaves no name and no address of a person behind with the last entry that used it', async () => {
      await entry('gone-host', 'old@example.com', 400);
      await entry('host', 'old@example.com', 400);
      await entry('host', 'new@example.com', 1);
      const compactor = new NameIndexCompactor({ db: bench.db, log: quietLog });
      await compactor.compact();
      expect(await names()).to.deep.equal({
        resources: ['gone-host', 'host'],
        actors: ['new@example.com', 'old@example.com'],
        sheets: ['gone-host', 'host'],
      });
      await job({ compactor }).prune();
      expect(await names()).to.deep.equal({
        resources: ['host'],
        actors: ['new@example.com'],
        sheets: ['host'],
      });
    });

    it('keeps a name that an entry uses which is not sealed yet', async () => {
      await entry('host', 'who@example.com', 400);
      const waiting = `insert into audit_outbox (id, org_id, partner_id, actor_type, actor_id, actor_email, action,
        resource_type, resource_name, result) values (gen_random_uuid(), $1, $2, 'user', $3, 'who@example.com', 'a',
        'device', 'host', 'success')`;
      await bench.owner(waiting, [bench.orgId, bench.partnerId, ACTOR]);
      await job().prune();
      expect(await names()).to.deep.include({ resources: ['host'], actors: ['who@example.com'] });
      await bench.sealer.flush();
    });

    it('takes up at the next round what an interrupted one has left', async () => {
      await entry('host', 'who@example.com', 400);
      const closed = job();
      // As if the process had ended between the entries and their names.
      await bench.owner(
        'create function hold() returns trigger language plpgsql as $$ begin raise exception $x$no$x$; end $$',
      );
      await bench.owner(
        'create trigger hold before delete on audit_actors for each row execute function hold()',
      );
      expect(await closed.prune()).to.include({ removed: 1, failed: 0 });
      expect((await names()).actors).to.deep.equal(['who@example.com']);
      await bench.owner('drop function hold cascade');
      await job().prune();
      expect(await names()).to.deep.include({ resources: [], actors: [] });
    });

    it('notes a name again that a sealer remembers, once it has forgotten it', () => {
      const entries = [
        {
          orgId: bench.orgId,
          partnerId: bench.partnerId,
          actorType: 'user' as const,
          actorId: ACTOR,
          actorEmail: 'who@example.com',
          resourceType: 'device',
          resourceName: 'host',
        },
      ];
      for (const [rememberedMs, again] of [
        [60_000, 0],
        [0, 1],
      ] as const) {
        const cache = new NameIndexCache(rememberedMs);
        cache.markIndexed(cache.unindexed(entries));
        expect(cache.unindexed(entries).actors).to.have.length(again);
      }
    });
  });

  describe('of a chain that is not intact', () => {
    const CASES: [string, string, RegExp][] = [
      [
        'an old entry was changed',
        `update audit_logs set action = 'x' where seq = 7`,
        /entry 7: its content/,
      ],
      ['one is gone', 'delete from audit_logs where seq = 7', /entry 8: entry 7 is missing/],
      ['the first is gone', 'delete from audit_logs where seq = 1', /entry 2: entry 1 is missing/],
      [
        'the link of the first is another',
        `update audit_logs set prev_checksum = 'a' where seq = 1`,
        /entry 1/,
      ],
      [
        'all behind a place was cut off',
        'delete from audit_logs where seq > 8',
        /entries up to 9 are missing/,
      ],
    ];
    for (const [name, sql, reason] of CASES) {
      it(`removes nothing if ${name}, says so, and does the others`, async () => {
        const other = await bench.organization();
        await fill([9, { daysAgo: 400 }], [3], [4, { daysAgo: 400, orgId: other }]);
        await tamper(sql.replaceAll(/where seq/g, `where chain_id = '${bench.orgId}' and seq`));
        const before = await left();
        const { log, lines } = recordingLog();
        expect(await job({ log }).prune()).to.deep.equal({ ran: 'here', removed: 4, failed: 1 });
        expect(await left()).to.deep.equal(before);
        expect((await failureOf())?.failure)
          .to.match(/^The chain is not intact/)
          .and.match(reason);
        expect(await failureOf(other)).to.deep.equal({ failure: null, cleaned: true });
        expect(lines.filter(({ event }) => event === 'audit.not_pruned')).to.have.lengthOf(1);
      });
    }

    it('signs nothing that a person has chained anew, up to an entry that is younger', async () => {
      await fill([9, { daysAgo: 400 }], [3]);
      // Only the first batch was kept as a checkpoint; the head is what the rest hangs on.
      await bench.owner(
        `begin; alter table audit_checkpoints disable trigger user; delete from audit_checkpoints;
        alter table audit_checkpoints enable trigger user; commit`,
      );
      let prevChecksum: string | null = null;
      const updates: string[] = [];
      await withSystem(bench.db, 'test', (tx) =>
        readEntries(tx, bench.orgId, ({ checksum: _sealed, ...entry }) => {
          const changed = { ...entry, action: entry.seq === 5 ? 'never.mind' : entry.action, prevChecksum };
          prevChecksum = checksumOf(changed);
          updates.push(
            `update audit_logs set action = '${changed.action}', checksum = '${prevChecksum}', prev_checksum = ${changed.prevChecksum === null ? 'null' : `'${changed.prevChecksum}'`} where seq = ${entry.seq}`,
          );
        }),
      );
      await tamper(updates.join('; '));
      expect(await job().prune()).to.include({ removed: 0, failed: 1 });
      expect((await failureOf())?.failure).to.contain('the signed head has another checksum');
    });
  });

  it('goes on where it was cut off, and tells that all is well again', async () => {
    await fill([100, { daysAgo: 400 }], [2]);
    const state = { isOver: false };
    const running = job()
      .prune()
      .catch(() => {})
      .finally(() => {
        state.isOver = true;
      });
    let killed = 0;
    while (!state.isOver) {
      const ended = await bench.owner(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'muster-audit-prune' and datname = current_database()`,
      );
      killed += ended.length;
    }
    await running;
    expect(killed).to.be.greaterThan(0);
    expect((await left()).length).to.be.greaterThan(2);
    expect(await faults()).to.deep.equal([]);
    expect(await job().prune()).to.include({ failed: 0 });
    expect(await left()).to.deep.equal(['101 unlinked', 102]);
    expect(await faults()).to.deep.equal([]);
    expect(await failureOf()).to.deep.equal({ failure: null, cleaned: true });
  });

  it('stops between two steps when the server does', async () => {
    await fill([100, { daysAgo: 400 }]);
    const closing = new AbortController();
    const running = job().prune(closing.signal);
    while ((await left()).length === 100);
    closing.abort();
    expect((await running).removed)
      .to.be.greaterThan(0)
      .and.lessThan(100);
    expect(await faults()).to.deep.equal([]);
    expect(await failureOf()).to.equal(undefined);
  });

  it('is done by one server at a time, and two at once would do no harm', async () => {
    await fill([30, { daysAgo: 400 }], [2]);
    const ran = (await Promise.all([job().prune(), job().prune()])).map((one) => one.ran);
    expect(ran.toSorted()).to.deep.equal(['elsewhere', 'here']);
    expect(await left()).to.deep.equal(['31 unlinked', 32]);

    await keep(30);
    await fill([10, { daysAgo: 100 }]);
    const chain = { chainId: bench.orgId, before: new Date(Date.now() + 1000) };
    const portion = await nextPortion(bench.db, bench.keys, chain, SIZES);
    if (portion === undefined) throw new Error('nothing to do');
    const sessions = [1, 2].map(() => openSession(bench.database.auditAdminUrl ?? '', 'test'));
    try {
      for (const place of portion.steps) {
        const both = await Promise.all(sessions.map((session) => cutChain(session, portion, place)));
        expect(both.filter((one) => one !== undefined)).to.have.lengthOf(1);
      }
    } finally {
      await Promise.all(sessions.map((session) => session.destroy()));
    }
    expect(await faults()).to.deep.equal([]);
  });

  it('removes no entry whose checksum has changed since the verification', async () => {
    await keep(30);
    await fill([10, { daysAgo: 100 }]);
    const chain = { chainId: bench.orgId, before: new Date(Date.now() + 1000) };
    const portion = await nextPortion(bench.db, bench.keys, chain, SIZES);
    const [place] = portion?.steps ?? [];
    if (portion === undefined || place === undefined) throw new Error('nothing to do');
    await tamper(`update audit_logs set checksum = repeat('0', 64) where seq = ${place.seq}`);
    const session = openSession(bench.database.auditAdminUrl ?? '', 'test');
    try {
      const refused = await cutChain(session, portion, place).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(refused).to.be.instanceOf(RetentionFailure);
    } finally {
      await session.destroy();
    }
    expect(await left()).to.deep.equal(['1 unlinked', 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('loses nothing that is sealed meanwhile', async () => {
    await fill([60, { daysAgo: 400 }]);
    const writer = (async () => {
      for (let i = 0; i < 20; i++) {
        await bench.add(10);
        await bench.sealer.flush();
      }
    })();
    expect(await job().prune()).to.include({ removed: 60 });
    await writer;
    expect(await left()).to.have.lengthOf(200);
    expect(await faults()).to.deep.equal([]);
  });

  it('goes on with a key that came meanwhile', async () => {
    await fill([12, { daysAgo: 400 }], [2]);
    await bench.keys.rotate(bench.db);
    expect(await job().prune()).to.include({ removed: 12 });
    expect(await faults()).to.deep.equal([]);
  });

  it('is off without its connection, says so once, and fails without harm with a wrong one', async () => {
    await fill([3, { daysAgo: 400 }]);
    const { log, lines } = recordingLog();
    const off = job({ adminUrl: undefined });
    expect(await off.prune()).to.deep.equal({ ran: 'off', removed: 0, failed: 0 });
    const jobs = createJobs({ db: bench.db, encryptor: createEncryptor({ current: 'test', old: [] }), log });
    const parts = { auditAdminUrl: undefined, auditArchive: undefined, auditKeys: bench.keys };
    addAuditJobs({ jobs, db: bench.db, ...parts, log });
    expect(lines.map(({ event }) => event)).to.deep.equal(['audit.cleanup_off']);

    // A role that serves requests is no replacement.
    expect(await job({ adminUrl: bench.database.appUrl }).prune()).to.include({ removed: 0, failed: 1 });
    const wrong = new URL(bench.database.auditAdminUrl ?? '');
    wrong.password = 'wrong';
    const refused = await job({ adminUrl: wrong.href })
      .prune()
      .catch((error: Error) => error.message);
    expect(refused).to.contain('password authentication failed');
    expect(await left()).to.deep.equal([1, 2, 3].map((seq) => (seq === 1 ? '1 unlinked' : seq)));
  });

  it('removes nothing if copies are asked for and there is no archive', async () => {
    await fill([3, { daysAgo: 400 }]);
    await keep(365);
    await bench.owner('update audit_retention_policies set archive_to_s3 = true');
    expect(await job().prune()).to.include({ removed: 0, failed: 1 });
    expect((await failureOf())?.failure).to.contain('no audit archive');
  });
});
