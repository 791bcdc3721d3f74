import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import type { ProofDevice } from '../backup/support/device.ts';
import { startWorld, type World } from '../backup/support/world.ts';
import { eventually } from '../../../support/eventually.ts';
import { needsRestic } from '../../../support/restic.ts';

/**
 * A recovery plan of three groups and six devices, with the server and the agents as processes of their own and real
 * files in real repositories: `npm run test:recovery`. It prints what was measured.
 */

const FILES = 40;
const FILE_BYTES = 1_000_000;

describe('a recovery plan with real agents', function () {
  this.timeout(600_000);
  let world: World;
  let site: Server;
  let planId: string;
  const devices: ProofDevice[] = [];
  const figures: Record<string, unknown>[] = [];

  before(async function () {
    needsRestic(this);
    site = createServer((_request, response) => response.end('well')).listen(0, '127.0.0.1');
    world = await startWorld();
    for (let index = 0; index < 6; index++) {
      const device = await world.addDevice();
      for (let file = 0; file < FILES; file++) {
        await mkdir(path.join(device.source, `d${file % 4}`), { recursive: true });
        await writeFile(path.join(device.source, `d${file % 4}`, `${file}.bin`), randomBytes(FILE_BYTES));
      }
      await device.start();
      await device.backUp();
      devices.push(device);
    }
    planId = (
      await world.ask('POST', '/dr/plans', {
        orgId: world.orgId,
        name: 'Whole site',
        rtoTargetMinutes: 10,
        rpoTargetMinutes: 60,
      })
    ).id;
    const { port } = site.address() as AddressInfo;
    const check = { type: 'http', host: '127.0.0.1', port, contains: 'well', timeoutSeconds: 30 };
    for (const sequence of [0, 1, 2]) {
      await world.ask('POST', `/dr/plans/${planId}/groups`, {
        name: `Group ${sequence}`,
        sequence,
        devices: [2 * sequence, 2 * sequence + 1].map((index) => ({
          deviceId: at(index).deviceId,
          targetDeviceId: at((index + 1) % 6).deviceId,
          restore: { type: 'files', targetPath: placeOf(index) },
          checks: [check],
        })),
      });
    }
  });
  after(async () => {
    for (const figure of figures) process.stdout.write(`${JSON.stringify(figure)}\n`);
    site?.close();
    await world?.close();
  });

  const at = (index: number): ProofDevice => {
    const device = devices[index];
    if (device === undefined) throw new Error(`no device ${index}`);
    return device;
  };
  /** Where the files of a device are on its target. */
  const placeOf = (index: number) => path.join(world.dataDir, `failover-${index}`);
  const execute = async (executionType: string): Promise<string> =>
    (await world.ask('POST', `/dr/plans/${planId}/execute`, { executionType })).id;
  const read = (id: string) => world.ask('GET', `/dr/executions/${id}`);
  const ended = async (id: string) => {
    const execution = await eventually(
      () => read(id),
      ({ finishedAt }) => finishedAt !== null,
      300_000,
    );
    const { rtoSeconds, rpoSeconds, abortSeconds, leftovers } = execution.report;
    const { executionType, status } = execution;
    figures.push({ executionType, status, rtoSeconds, rpoSeconds, abortSeconds, leftovers });
    return execution;
  };
  /** What the agents have in their folders for restores. */
  const left = async () => {
    const folders = devices.flatMap(({ agentDir }) =>
      ['restored', 'staging'].map((name) => path.join(agentDir, 'backup', name)),
    );
    const names = await Promise.all(folders.map((folder) => readdir(folder).catch(() => [])));
    return names.flat();
  };
  const running = (id: string, state: string) =>
    eventually(
      () => read(id),
      ({ groups }) =>
        groups.some(({ steps }: { steps: { actions: { kind: string; state: string }[] }[] }) =>
          steps.some(({ actions }) => actions.some((action) => action.state === state)),
        ),
      60_000,
    );

  it('is rehearsed, and nothing is left', async () => {
    const done = await ended(await execute('rehearsal'));
    expect(done.status, JSON.stringify(done)).to.equal('completed');
    expect(done.report).to.include({ rtoMet: true, rpoMet: true, leftovers: 0 });
    expect(await left()).to.deep.equal([]);
    expect(await readdir(placeOf(0)).catch(() => 'none')).to.equal('none');
  });

  it('is aborted within seconds, and nothing is left', async () => {
    const id = await execute('rehearsal');
    await running(id, 'running');
    await world.ask('POST', `/dr/executions/${id}/abort`);
    const done = await ended(id);
    expect(done.status).to.equal('aborted');
    expect(done.report.abortSeconds).to.be.lessThan(30);
    expect(await left()).to.deep.equal([]);
  });

  it('goes on when the server is killed in the middle and started again', async () => {
    const id = await execute('rehearsal');
    await running(id, 'running');
    await world.killServer();
    await world.startServer();
    const done = await ended(id);
    expect(done.status, JSON.stringify(done)).to.equal('completed');
    expect(await left()).to.deep.equal([]);
  });

  it('fails over, and fails back what was changed on the targets', async () => {
    const over = await ended(await execute('failover'));
    expect(over.status, JSON.stringify(over)).to.equal('completed');
    for (const [index, device] of devices.entries()) {
      const name = path.join('d1', '1.bin');
      const there = path.join(placeOf(index), device.source, name);
      expect(await readFile(there)).to.deep.equal(await readFile(path.join(device.source, name)));
      await writeFile(there, `changed on the target of ${index}`);
      await rm(path.join(device.source, 'd2'), { recursive: true });
    }
    const back = await ended(await execute('failback'));
    expect(back.status, JSON.stringify(back)).to.equal('completed');
    for (const [index, { source }] of devices.entries()) {
      expect(await readFile(path.join(source, 'd1/1.bin'), 'utf8')).to.equal(
        `changed on the target of ${index}`,
      );
      expect(await readdir(path.join(source, 'd2'))).to.have.length(FILES / 4);
    }
    const plan = await world.ask('GET', `/dr/plans/${planId}`);
    expect(plan.failedOver).to.deep.equal([]);
    expect(await left()).to.deep.equal([]);
  });
});
