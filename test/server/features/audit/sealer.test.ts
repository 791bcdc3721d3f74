import { expect } from 'chai';
import { checkStored } from '../../../../src/features/audit/stored-check.ts';
import { ChainWriter, SigningKeys } from '../../../../src/features/audit/index.ts';
import { openPool } from '../../../../src/platform/db/pool.ts';
import { withSystem, withTenant } from '../../../../src/platform/db/transaction.ts';
import type { TenantScope } from '../../../../src/platform/db/tenant-scope.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { createEncryptor } from '../../../../src/platform/secrets/sealed.ts';
import { eventually } from '../../../support/eventually.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { sentStatements } from '../../../support/sent-statements.ts';
import { testClock } from '../../../support/test-clock.ts';
import { type AuditBench, createAuditBench, SECRET } from '../../../support/audit/audit-support.ts';

describe('the audit sealer', () => {
  let bench: AuditBench;
  beforeEach(async () => {
    bench = await createAuditBench();
  });
  afterEach(async () => {
    testClock.reset();
    await bench.close();
  });

  const waiting = async () =>
    (await bench.owner<{ n: number }>('select count(*)::int as n from audit_outbox'))[0]?.n;
  const sealedCount = async () =>
    (await bench.owner<{ n: number }>('select count(*)::int as n from audit_logs'))[0]?.n;
  const check = () => checkStored(bench.db, { own: bench.keys });
  const checkpoints = (chainId: string) =>
    bench.owner<{ number: number; seq: number }>(
      'select number::int, seq::int from audit_checkpoints where chain_id = $1 order by number',
      [chainId],
    );

  it('gives every entry its place, in the order of writing, and empties the outbox', async () => {
    await bench.add(1200);
    await bench.sealer.flush();
    expect(await waiting()).to.equal(0);
    const rows = await bench.owner<{ seq: number; n: number }>(
      `select seq::int, (details->>'n')::int as n from audit_logs order by seq`,
    );
    expect(rows.map(({ seq }) => seq)).to.deep.equal(Array.from({ length: 1200 }, (_, i) => i + 1));
    expect(rows.map(({ n }) => n)).to.deep.equal(rows.map(({ seq }) => seq));
    expect(await check()).to.deep.include({ chains: 1, entries: 1200, faults: [], foreignKeys: [] });
  });

  it('keeps a chain for each organization, and one for a partner’s own entries', async () => {
    const other = await bench.organization();
    for (let i = 0; i < 3; i++) {
      await bench.add(2);
      await bench.add(2, { orgId: other });
      await bench.add(2, { orgId: null });
    }
    await bench.sealer.flush();
    const chains = await bench.owner<{ chain: string; n: number; top: number }>(
      'select chain_id as chain, count(*)::int as n, max(seq)::int as top from audit_logs group by 1',
    );
    expect(chains).to.have.deep.members(
      [bench.orgId, other, bench.partnerId].map((chain) => ({ chain, n: 6, top: 6 })),
    );
    expect((await check()).faults).to.deep.equal([]);
  });

  it('lets several seal at once on the same chains, and none forks, repeats or loses an entry', async () => {
    const orgIds = [bench.orgId, await bench.organization(), await bench.organization()];
    const sealers = Array.from({ length: 4 }, () => bench.anotherSealer({ batch: 7 }));
    await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        for (const orgId of orgIds) await bench.add(10, { orgId });
        await sealers[i % 4]?.flush();
      }),
    );
    await Promise.all(sealers.map((one) => one.flush()));
    expect(await waiting()).to.equal(0);
    const report = await check();
    expect(report).to.deep.include({ chains: 3, entries: 360, faults: [] });
  });

  it('notes the names in all that it seals, also ahead of it and by several at once', async () => {
    const unnoted = () =>
      bench.owner(
        `select from audit_logs l where
          not exists (select from audit_actors a where a.chain_id = l.chain_id and a.actor_id = l.actor_id
            and a.actor_email = l.actor_email)
          or not exists (select from audit_resources r where r.chain_id = l.chain_id
            and r.resource_type = l.resource_type and r.resource_name = l.resource_name)`,
      );
    const orgIds = [bench.orgId, await bench.organization()];
    const sealers = Array.from({ length: 3 }, () => bench.anotherSealer({ batch: 5 }));
    // In each place, the second time too: names that another has noted already.
    for (let i = 0; i < 2; i++) {
      for (const orgId of orgIds) await bench.add(40, { orgId });
      await Promise.all(sealers.map((one) => one.flush()));
    }
    expect([await sealedCount(), await unnoted()]).to.deep.equal([160, []]);
  });

  it('waits for the holder of a chain, and goes on behind what that one wrote', async () => {
    await bench.add(1);
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    let locked = () => {};
    const isLocked = new Promise<void>((resolve) => (locked = resolve));
    const holder = withSystem(bench.db, 'test', async (tx) => {
      await tx.raw(`select pg_advisory_xact_lock(hashtextextended('audit:' || ?, 0))`, [bench.orgId]);
      locked();
      await held;
    });
    await isLocked;
    const sealing = bench.sealer.flush();
    await eventually(
      () =>
        bench.owner(
          `select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`,
        ),
      ({ length }) => length === 1,
    );
    expect(await sealedCount()).to.equal(0);
    release();
    await Promise.all([holder, sealing]);
    expect(await sealedCount()).to.equal(1);
  });

  it('is woken by a commit, and otherwise finds by itself what a server that died has left', async () => {
    const woken = bench.anotherSealer({ collectMs: 100 });
    await bench.add(3);
    woken.wake();
    await testClock.advance(100);
    await eventually(sealedCount, (n) => n === 3);
    await bench.add(3);
    bench.anotherSealer({ sweepMs: 5000, collectMs: 100 });
    await testClock.advance(5100);
    await eventually(sealedCount, (n) => n === 6);
  });

  it('seals what is left when it closes, and nothing after that', async () => {
    await bench.add(700);
    const closing = bench.anotherSealer({ sweepMs: 20, collectMs: 1 });
    await closing.close();
    expect(await sealedCount()).to.equal(700);
    await bench.add(1);
    closing.wake();
    await testClock.advance(60_000);
    // Long enough for a flush, if there were one.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await waiting()).to.equal(1);
  });

  it('leaves nothing half done when it fails, says so, and goes on when it can again', async () => {
    const { log, lines } = recordingLog();
    const sealer = bench.anotherSealer({ collectMs: 1, retryMs: 20, sweepMs: 20 }, log);
    await bench.owner('alter table audit_chain_heads rename to gone');
    await bench.add(5);
    await sealer.flush();
    expect([await waiting(), await sealedCount()]).to.deep.equal([5, 0]);
    expect(lines.filter(({ event }) => event === 'audit.chains_not_sealed')).to.have.length.greaterThan(0);
    expect(sealer.failing()).to.be.greaterThan(0);
    await bench.owner('alter table gone rename to audit_chain_heads');
    await eventually(waiting, (n) => n === 0);
    await eventually(
      () => sealer.failing(),
      (n) => n === 0,
    );
    expect((await check()).faults).to.deep.equal([]);
  });

  it('warns while the database is away, which is no fault that someone must repair here', async () => {
    const { log, lines } = recordingLog();
    const away = openPool('postgres://svc_app@127.0.0.1:1/away', { max: 1, name: 'away' });
    const sealer = new ChainWriter({ db: away, keys: bench.keys, log, timing: { sweepMs: 3_600_000 } });
    try {
      await sealer.flush();
      const [line] = lines.filter(({ event }) => event === 'audit.not_sealed');
      expect(line?.['level']).to.equal('warn');
    } finally {
      await sealer.close();
      await away.destroy();
    }
  });

  it('also warns while the database takes no writes, and then seals what has waited', async () => {
    const { log, lines } = recordingLog();
    const name = new URL(bench.database.ownerUrl).pathname.slice(1);
    await bench.add(2);
    await bench.owner(`alter database ${name} set default_transaction_read_only = on`);
    const standby = openPool(bench.database.appUrl, { max: 1, name: 'standby' });
    const sealer = new ChainWriter({ db: standby, keys: bench.keys, log, timing: { sweepMs: 3_600_000 } });
    try {
      await sealer.flush();
      const told = () => lines.map(({ event, level }) => `${String(level)} ${String(event)}`);
      expect(told()).to.deep.equal(['warn audit.not_sealed']);
      await bench.owner(`alter database ${name} reset default_transaction_read_only`);
      await sealer.flush();
      expect([await waiting(), await sealedCount()]).to.deep.equal([0, 2]);
    } finally {
      await sealer.close();
      await standby.destroy();
    }
  });

  const damageChain = async () => {
    await bench.add(2);
    await bench.sealer.flush();
    // Its head falls behind its rows: the next entry would fork the chain.
    await bench.owner(
      `alter table audit_chain_heads disable trigger user; update audit_chain_heads set seq = 1,
        checksum = (select checksum from audit_logs where seq = 1);
      alter table audit_chain_heads enable trigger user`,
    );
  };

  it('does not let a chain that is damaged keep the others waiting', async () => {
    const other = await bench.organization();
    await damageChain();
    const { log, lines } = recordingLog();
    const sealer = bench.anotherSealer({ retryMs: 10 }, log);
    for (let i = 0; i < 3; i++) {
      await bench.add(2);
      await bench.add(2, { orgId: other });
      await sealer.flush();
    }
    const counts = await bench.owner<{ chain: string; n: number }>(
      'select chain_id as chain, count(*)::int as n from audit_logs group by 1',
    );
    expect(counts).to.have.deep.members([
      { chain: bench.orgId, n: 2 },
      { chain: other, n: 6 },
    ]);
    const told = lines.filter(({ event }) => event === 'audit.chains_not_sealed');
    expect(told[0]?.['chainId']).to.equal(bench.orgId);
  });

  it('seals the others to their end beside a damaged chain, also one that fills several batches', async () => {
    const [long, short] = [await bench.organization(), await bench.organization()];
    await damageChain();
    const sealer = bench.anotherSealer({ retryMs: 60_000, batch: 10 }, recordingLog().log);
    await bench.add(1);
    await bench.add(25, { orgId: long });
    await bench.add(1, { orgId: short });
    await sealer.flush();
    const counts = await bench.owner<{ chain: string; n: number }>(
      'select chain_id as chain, count(*)::int as n from audit_logs group by 1',
    );
    expect(counts).to.have.deep.members([
      { chain: bench.orgId, n: 2 },
      { chain: long, n: 25 },
      { chain: short, n: 1 },
    ]);
  });

  it('leaves a damaged chain alone until it is due again, and counts it as failing while others are sealed', async () => {
    const other = await bench.organization();
    await damageChain();
    const { log, lines } = recordingLog();
    const sealer = bench.anotherSealer({ retryMs: 60_000 }, log);
    await bench.add(2);
    for (let i = 0; i < 3; i++) {
      await bench.add(2, { orgId: other });
      await sealer.flush();
      expect(sealer.failing()).to.equal(1);
    }
    expect(lines.filter(({ event }) => event === 'audit.chains_not_sealed')).to.have.length(1);
  });

  it('asks nothing of a damaged chain before it is due, so that the others need one batch together', async () => {
    const [one, other] = [await bench.organization(), await bench.organization()];
    await damageChain();
    const sealer = bench.anotherSealer({ retryMs: 60_000 }, recordingLog().log);
    const batches = async () => {
      for (const orgId of [bench.orgId, one, other]) await bench.add(1, { orgId });
      const sent = await sentStatements(['audit'], () => sealer.flush());
      return sent.filter((text) => text.includes('pg_advisory_xact_lock(key)')).length;
    };
    expect(await batches(), 'all together, and then each by itself').to.equal(4);
    expect(await batches(), 'those that are not damaged').to.equal(1);
  });

  it('keeps the head as a checkpoint with the first batch, every 1000 entries, and after ten minutes', async () => {
    await bench.add(2500);
    await bench.sealer.flush();
    expect(await checkpoints(bench.orgId)).to.deep.equal([
      { number: 1, seq: 500 },
      { number: 2, seq: 1500 },
      { number: 3, seq: 2500 },
    ]);
    await bench.add(1);
    await bench.sealer.flush();
    expect(await checkpoints(bench.orgId)).to.have.length(3);
    // As if the last were of eleven minutes ago. It is not signed so any more, which is not what this is about.
    await bench.owner(
      `alter table audit_checkpoints disable trigger user;
      update audit_checkpoints set at = at - interval '11 minutes';
      alter table audit_checkpoints enable trigger user`,
    );
    await bench.add(1);
    await bench.sealer.flush();
    expect((await checkpoints(bench.orgId)).at(-1)).to.deep.equal({ number: 4, seq: 2502 });
  });

  it('tells the log of each checkpoint, so that there is one that no database can take back', async () => {
    const { log, lines } = recordingLog();
    await bench.add(3);
    await bench.anotherSealer({}, log).flush();
    const told = lines.find(({ event }) => event === 'audit.checkpoint');
    expect(told).to.deep.include({ chainId: bench.orgId });
    expect(told?.['checkpoint']).to.include.keys('seq', 'checksum', 'signature', 'keyId');
  });

  it('tells how long each entry waited', async () => {
    const lags: number[] = [];
    await bench.add(5);
    testClock.jump(60);
    await bench.anotherSealer({}, undefined, (lag) => lags.push(lag)).flush();
    expect(lags).to.have.length(5);
    // In seconds, also where the machine is busy.
    for (const lag of lags) expect(lag).to.be.within(0.05, 40);
  });

  describe('signs', () => {
    it('with one key, even if many servers start at once', async () => {
      await bench.owner(
        'alter table audit_signing_keys disable trigger user; delete from audit_signing_keys',
      );
      await Promise.all(
        Array.from({ length: 6 }, () => new SigningKeys(createEncryptor(SECRET)).ensure(bench.db)),
      );
      expect(await bench.owner('select from audit_signing_keys')).to.have.length(1);
    });

    it('with a new key from the batch after its making, and the old one still counts for what it signed', async () => {
      await bench.add(5);
      await bench.sealer.flush();
      const made = await new SigningKeys(createEncryptor(SECRET)).rotate(bench.db);
      await bench.add(1500);
      await bench.sealer.flush();
      const used = await bench.owner<{ key: string }>(
        'select key_id as key from audit_checkpoints order by number',
      );
      expect(used.map(({ key }) => key === made)).to.deep.equal([false, true]);
      const report = await check();
      expect(report).to.deep.include({ entries: 1505, faults: [], foreignKeys: [] });
      expect(report.keys.map(({ retiredAt }) => retiredAt === null)).to.deep.equal([false, true]);
    });

    it('not at all with a secret that is gone: entries wait until it is back', async () => {
      await bench.add(2);
      const { log, lines } = recordingLog();
      const lost = bench.anotherSealer({}, log);
      await bench.owner(
        `update audit_signing_keys set sealed_private_key = 'v1.00000000.' || sealed_private_key`,
      );
      await lost.flush();
      expect(lines.some(({ event }) => event === 'audit.chains_not_sealed')).to.equal(true);
      expect(await waiting()).to.equal(2);
      await bench.owner(
        `update audit_signing_keys set sealed_private_key = replace(sealed_private_key, 'v1.00000000.v1.', 'v1.')`,
      );
      await bench.sealer.flush();
      expect(await waiting()).to.equal(0);
    });
  });

  describe('reads what a tenant may write, and a tenant reads', () => {
    const tenant = (orgId: string, partnerId: string | null = null): TenantScope => ({
      scope: partnerId === null ? 'organization' : 'partner',
      userId: newId(),
      partnerId,
      orgAccess: partnerId === null ? 'listed' : 'all',
      orgIds: partnerId === null ? [orgId] : [],
    });

    it('the entries, head and checkpoints of its own chains, and of no others', async () => {
      const other = await bench.organization();
      await bench.add(2);
      await bench.add(3, { orgId: other });
      await bench.add(4, { orgId: null });
      await bench.sealer.flush();
      const seen = (scope: TenantScope) =>
        withTenant(bench.db, scope, async (tx) => ({
          entries: (await tx('audit_logs').select()).length,
          heads: await tx('audit_chain_heads').pluck('chain_id'),
          checkpoints: await tx('audit_checkpoints').pluck('chain_id'),
        }));
      expect(await seen(tenant(other))).to.deep.equal({ entries: 3, heads: [other], checkpoints: [other] });
      const wide = await seen(tenant('', bench.partnerId));
      expect(wide.entries).to.equal(9);
      expect(wide.heads).to.have.members([bench.orgId, other, bench.partnerId]);
      expect(await seen({ ...tenant(other), orgIds: [] })).to.deep.equal({
        entries: 0,
        heads: [],
        checkpoints: [],
      });
    });
  });
});
