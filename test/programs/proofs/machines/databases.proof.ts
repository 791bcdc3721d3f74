import { expect } from 'chai';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  identity,
  startTestPostgres,
  type TestPostgres,
} from '../../agent/capabilities/databases/postgres-server.ts';
import { startWorld, type World } from '../backup/support/world.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';

/** A database that is written to all the time, the server and the agent as programs, and nothing between them but REST. */
describe('the backups of a database that is written to', function () {
  this.timeout(900_000);
  let postgres: TestPostgres;
  let world: World;

  before(async function () {
    needsRestic(this);
    postgres = await startTestPostgres(this, ['wal_keep_size=512MB']);
    world = await startWorld();
  });
  after(async () => {
    await world?.close();
    await postgres?.close();
  });

  it('come back as the writer remembers them, whatever instant is asked for, even if the agent was killed meanwhile', async () => {
    const writer = startWriter(postgres);
    const device = await world.addDevice({
      sources: { kind: 'database', engine: 'postgresql', instance: postgres.instance },
    });
    await device.start();
    const found = await world.ask('GET', `/backup/databases/instances/${device.deviceId}?refresh=true`);
    expect(found.data.map(({ instance }: { instance: string }) => instance)).to.include(postgres.instance);
    const early = await world.send('POST', `/backup/jobs/run/${device.deviceId}`, {
      configId: device.configId,
      backupType: 'log',
    });
    expect(early.status).to.equal(409);
    expect(early.body.error).to.match(/needs a full one/);

    const full = await device.backUp();
    expect(full).to.include({ backupType: 'full', typeReason: 'There is no full backup yet.' });
    const types: string[] = [];
    for (let index = 0; index < 3; index += 1) types.push((await device.backUp()).backupType);
    expect(types).to.deep.equal(['log', 'log', 'log']);

    // kill -9 of the agent in the middle of a backup: no snapshot, and the chain goes on.
    const killed = await device.order();
    await eventually(
      () => device.job(killed),
      ({ status }) => status !== 'pending',
      60_000,
    );
    await device.kill();
    await device.start();
    const end = await device.ended(killed);
    if (end.status === 'failed') expect(end.snapshotId).to.equal(null);
    const last = await device.backUp();
    expect(last.backupType).to.equal('log');
    const marks = await writer.stop();

    const { data } = await world.ask('GET', `/backup/databases/chains?deviceId=${device.deviceId}`);
    expect(data[0].broken).to.deep.equal([]);
    const [{ ranges }] = data[0].chains;
    expect(ranges).to.have.length(1);
    const inRange = marks.filter(({ at }) => at >= ranges[0].from && at <= ranges[0].to);
    expect(inRange.length).to.be.greaterThan(20);
    for (const share of [0, 0.4, 1]) {
      const mark = inRange[Math.floor(share * (inRange.length - 1))]!;
      const targetPath = await postgres.target(`at-${share}`);
      const { id } = await world.ask('POST', '/backup/databases/restore', {
        snapshotId: last.snapshotId,
        targetPath,
        pointInTime: mark.at,
      });
      const restore = await device.restored(id);
      expect(restore.status, JSON.stringify(restore)).to.equal('completed');
      expect(restore.database.result.isRecovered).to.equal(true);
      expect(postgres.askRestored(targetPath, 'select max(number), count(*) from written')).to.equal(
        `${mark.number}|${mark.number}`,
      );
    }
    const after = await world.send('POST', '/backup/databases/restore', {
      snapshotId: last.snapshotId,
      targetPath: '/srv/later',
      pointInTime: new Date(Date.parse(ranges[0].to) + 1).toISOString(),
    });
    expect([after.status, after.body.error]).to.satisfy(
      ([status, error]: [number, string]) => status === 409 && /cannot be restored/.test(error),
    );
  });
});

/** Writes numbers, and after each notes the number and the time of the server: everything up to it was acknowledged. */
function startWriter({ folder, sql }: TestPostgres) {
  sql('create table written (number integer primary key)');
  const child = spawn('/usr/lib/postgresql/15/bin/psql', ['-h', folder, '-d', 'postgres', '-qXAt'], {
    ...identity(),
    cwd: '/',
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => (text += part));
  let number = 0;
  const timer = setInterval(() => {
    number += 1;
    child.stdin.write(
      `insert into written values (${number});\n` +
        `select ${number}, to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');\n`,
    );
  }, 25);
  return {
    async stop() {
      clearInterval(timer);
      child.stdin.end();
      await once(child, 'close');
      return text
        .trim()
        .split('\n')
        .map((line) => {
          const [of, at = ''] = line.split('|');
          // Down to the millisecond the time would lie before the commit.
          return { number: Number(of), at: new Date(Date.parse(at) + 1).toISOString() };
        });
    },
  };
}
