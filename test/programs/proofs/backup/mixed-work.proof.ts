import { expect } from 'chai';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { withSystem } from '../../../../src/platform/db/transaction.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';
import { type ProofDevice, STUCK_MS } from './support/device.ts';
import {
  expectDoneOnce,
  expectNothingStuck,
  expectRestores,
  expectSoundRepository,
} from './support/guarantees.ts';
import { strike, type Victim } from './support/kills.ts';
import { changeSource } from './support/rounds.ts';
import { type Dice, diceOf, numberOf, seedOf } from './support/settings.ts';
import { describeTree, type Tree } from './support/tree.ts';
import { startWorld, type World } from './support/world.ts';

/**
 * Backups, restores, verifications and syncs of vaults go on at the same time, while the server, its Postgres, agents and
 * restic are killed at random moments: `BACKUP_PROOF_STRIKES` of them, `BACKUP_PROOF_SEED` says which.
 */

const VICTIMS: readonly Victim[] = ['server', 'server', 'postgres', 'agent', 'agent', 'engine'];
const DEVICES = 2;
/** So long between two kills at most. */
const LULL_MS = 3000;

describe('work of several kinds while anything is killed', function () {
  this.timeout(0);
  let world: World;
  const devices: { device: ProofDevice; vaultId: string }[] = [];
  /** What each snapshot holds that was made of a source at rest. */
  const held = new Map<string, { device: ProofDevice; tree: Tree }>();
  const ends: string[] = [];
  const over = new AbortController();
  const seed = seedOf('mixed work');

  before(async function () {
    needsRestic(this);
    world = await startWorld({ postgres: 'embedded' });
    for (let n = 0; n < DEVICES; n++) {
      const device = await world.addDevice({ limits: { uploadKiBps: 8000 } });
      await device.start();
      const { id: vaultId } = await world.ask('POST', '/backup/vault', {
        deviceId: device.deviceId,
        configId: device.configId,
        name: 'Second repository',
        provider: 'server',
        syncAfterBackup: false,
      });
      devices.push({ device, vaultId });
    }
    // As the owner of the database, whom no server knows.
    await (await world.pool()).raw(`create schema proof;
      grant usage on schema proof to public;
      create table proof.ends (id uuid, kind text);
      grant insert, select on proof.ends to public;
      create function proof.note_end() returns trigger language plpgsql as $$
        begin insert into proof.ends values (new.id, new.kind); return null; end $$;
      grant execute on function proof.note_end() to public;
      create trigger note_end after update on work for each row
        when (old.finished_at is null and new.finished_at is not null) execute function proof.note_end()`);
  });
  after(async () => world?.close());

  const inDatabase = async <Row>(sql: string): Promise<Row[]> =>
    withSystem(await world.pool(), 'proof', async (tx) => (await tx.raw<{ rows: Row[] }>(sql)).rows);
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  /** `undefined` if it is refused, because the same is in flight or the device has just gone. */
  const order = (where: string, body: object): Promise<string | undefined> =>
    world.ask('POST', where, body).then(
      ({ id }: { id: string }) => id,
      () => undefined,
    );

  async function backUp({ device }: (typeof devices)[number], round: number, dice: Dice): Promise<string> {
    await changeSource(device.source, round, dice);
    const tree = await describeTree(device.source);
    const id = await order(`/backup/jobs/run/${device.deviceId}`, { configId: device.configId });
    if (id === undefined) return 'refused';
    const { status, snapshotId } = await device.ended(id);
    if (status === 'completed') held.set(snapshotId, { device, tree });
    return status;
  }

  async function restore(dice: Dice): Promise<string> {
    const snapshots = [...held];
    if (snapshots.length === 0) return 'refused';
    const [snapshotId, { device, tree }] = dice.pick(snapshots);
    const targetPath = path.join(world.dataDir, `restored-${dice.below(1e9)}`);
    await mkdir(targetPath);
    const id = await order('/backup/restore', { snapshotId, targetPath });
    if (id === undefined) return 'refused';
    const { status } = await device.restored(id);
    if (status === 'completed') {
      expect(await describeTree(path.join(targetPath, device.source))).to.deep.equal(tree);
    }
    await rm(targetPath, { recursive: true, force: true });
    return status;
  }

  async function verify({ device: { deviceId } }: (typeof devices)[number], dice: Dice): Promise<string> {
    const verificationType = dice.pick(['integrity', 'test_restore']);
    const id = await order('/backup/verify', { deviceId, verificationType });
    if (id === undefined) return 'refused';
    const found = await eventually(
      async () => {
        const { data } = await world.ask('GET', `/backup/verifications?deviceId=${deviceId}&limit=50`);
        return (data as { id: string; status: string }[]).find((one) => one.id === id)?.status;
      },
      (status) => status !== undefined && status !== 'pending' && status !== 'running',
      STUCK_MS,
    );
    return found ?? 'lost';
  }

  async function sync({ vaultId }: (typeof devices)[number]): Promise<string> {
    const id = await order(`/backup/vault/${vaultId}/sync`, {});
    if (id === undefined) return 'refused';
    const rows = () =>
      inDatabase<{ status: string }>(
        `select status from work where id = '${id}' and finished_at is not null`,
      ).catch(() => []);
    const [end] = await eventually(rows, ({ length }) => length > 0, STUCK_MS);
    return end?.status ?? 'lost';
  }

  /** One kind of work after another, until the last kill. */
  async function keepDoing(what: string, work: (round: number) => Promise<string>): Promise<void> {
    for (let round = 0; !over.signal.aborted; round++) {
      ends.push(`${what} ${await work(round)}`);
      await pause(1000);
    }
  }

  it('ends, each piece of it once, and what has succeeded holds', async () => {
    const strikes = numberOf('STRIKES', 40);
    const dice = diceOf(seed);
    const doing = devices.flatMap((one, n) => [
      keepDoing('backup', (round) => backUp(one, round, diceOf(seed + 10 * n + round))),
      keepDoing('verification', (round) => verify(one, diceOf(seed + 20 + 10 * n + round))),
      keepDoing('sync', () => sync(one)),
      keepDoing('restore', (round) => restore(diceOf(seed + 40 + 10 * n + round))),
    ]);
    const killed = new Map<string, number>();
    for (let n = 0; n < strikes; n++) {
      await pause(dice.below(LULL_MS));
      const { victim, hit } = await strike(world, dice.pick(devices).device, dice.pick(VICTIMS), dice);
      if (hit) killed.set(victim, (killed.get(victim) ?? 0) + 1);
    }
    over.abort();
    await Promise.all(doing).catch(async (error: unknown) => {
      const open =
        await inDatabase(`select kind, step, stage, status, attempt, fence, due_at - now() as due_in
        from work where finished_at is null`);
      // oxlint-disable-next-line no-console -- what a server that is gone by then could have said
      console.info(
        open,
        world
          .serverOutput()
          .split('\n')
          .filter((line) => line.includes('"event":"work.'))
          .slice(-40),
      );
      throw error;
    });
    const counts = new Map<string, number>();
    for (const end of ends) counts.set(end, (counts.get(end) ?? 0) + 1);
    // oxlint-disable-next-line no-console -- the course of a long run
    console.info('      killed', Object.fromEntries(killed), Object.fromEntries(counts));

    await eventually(
      () => inDatabase<{ kind: string }>('select kind from work where finished_at is null').catch(() => [{}]),
      ({ length }) => length === 0,
      STUCK_MS,
    );
    const wrong = await inDatabase(`select w.id, w.kind, w.status, w.stage, count(e.id)::int as ends
      from work w left join proof.ends e on e.id = w.id group by w.id having count(e.id) <> 1 or w.stage <> 'ended'`);
    expect(wrong, 'work that has not ended once').to.deep.equal([]);
    for (const kind of ['backup completed', 'restore completed', 'verification passed', 'sync completed']) {
      expect(counts.get(kind) ?? 0, kind).to.be.greaterThan(0);
    }
    for (const { device } of devices) {
      await expectNothingStuck(world, device);
      await expectDoneOnce(world, device);
      await expectSoundRepository(world, device);
    }
  });

  it('has left every completed snapshot as it was', async () => {
    for (const [snapshotId, { device, tree }] of [...held].slice(-10)) {
      await expectRestores(world, device, snapshotId, tree);
    }
  });
});
