import { expect } from 'chai';
import { writePrivateJson } from '../../../../src/agent/os/files/private-file.ts';
import { Fleet } from '../../../../src/agent/simulator/fleet.ts';
import { describeSynthetic, syntheticInventory } from '../../../../src/agent/simulator/synthetic-machine.ts';
import { COMMANDS, Inventory } from '../../../../src/protocol/index.ts';
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../../support/scripted-hub.ts';
import { temporaryFolder } from '../../../support/agent/test-agent.ts';

describe('durable work of simulated machines', () => {
  let hub: ScriptedHub;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let fleet: Fleet;

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
    const credentials = {
      server: hub.url,
      deviceId: 'd',
      orgId: 'o',
      siteId: 's',
      token: 't',
      heartbeatSeconds: 60,
      enrolledAt: '2026-11-20T10:00:00.000Z',
    };
    await writePrivateJson(path.join(temporary.folder, 'fleet.json'), {
      fleetId: 'f',
      devices: { 0: credentials },
    });
    fleet = new Fleet({
      server: hub.url,
      keys: [],
      devices: 1,
      dataDir: temporary.folder,
      onEvent: () => {},
    });
    await fleet.start();
  });
  afterEach(async () => {
    fleet.stop();
    await hub.close();
    await temporary.remove();
  });

  const resultOf = (id: string) =>
    eventually(
      () => hub.results.find((result) => result.id === id),
      (found) => found !== undefined,
    ).then((result) => result!);

  it('is answered as the protocol requires, without any effect on this machine', async () => {
    const effect = path.join(temporary.folder, 'effect');
    const content = `touch ${effect}`;
    const script = { language: 'bash', content, timeoutSeconds: 10 };
    const receipts = [1, 2].map(() => hub.receipt('script.run', script, { id: 'a' }));
    expect(await Promise.all(receipts)).to.deep.equal([{ ok: true }, { ok: true }]);
    const result = await resultOf('a');
    expect(result.status).to.equal('succeeded');
    expect(COMMANDS['script.run'].output.parse(result.output).stdout).to.contain('not run');
    expect(hub.results).to.have.length(1);
    expect(existsSync(effect)).to.equal(false);
    expect(await readdir(temporary.folder)).to.deep.equal(['fleet.json']);
  });

  it('includes live processes and services, as the protocol requires', async () => {
    const rowsOf = async (type: 'processes.list' | 'services.list') => {
      const id = await hub.command(type, {});
      const { output } = await resultOf(id);
      expect(COMMANDS[type].output.safeParse(output).success, type).to.equal(true);
      const rows = hub.rows.filter((frame) => frame.id === id).flatMap((frame) => frame.rows);
      return COMMANDS[type].row.array().parse(rows);
    };
    const processes = await rowsOf('processes.list');
    expect(processes.length).to.be.above(5);
    expect(await rowsOf('services.list')).to.have.length.above(3);
    const { pid, startedAt } = processes.find((one) => !('isProtected' in one)) as {
      pid: number;
      startedAt: string;
    };
    const ended = await resultOf(await hub.command('processes.end', { pid, startedAt }));
    expect(COMMANDS['processes.end'].output.parse(ended.output).outcome).to.equal('ended');
    const again = await resultOf(await hub.command('processes.end', { pid, startedAt }));
    expect(again.error?.code).to.equal('PROCESS_NOT_FOUND');
  });

  it('can be cancelled, changes settings, and reboots nothing', async () => {
    const script = { language: 'bash', content: 'x', timeoutSeconds: 10 };
    await hub.command('script.run', script, { id: 'a' });
    await hub.cancel('a');
    expect((await resultOf('a')).status).to.equal('cancelled');
    await resultOf(await hub.command('agent.set-auto-update', { enabled: false }));
    await eventually(
      () => hub.lastHeartbeat?.autoUpdate,
      (is) => is === false,
    );
    for (const type of ['agent.refresh-inventory', 'agent.reboot']) {
      expect((await resultOf(await hub.command(type, {}))).status).to.equal('succeeded');
    }
    expect(Inventory.parse(hub.inventories.at(-1)).software).not.to.deep.equal([]);
  });
});

describe('the inventory of simulated machines', () => {
  const fleet = Array.from({ length: 120 }, (_, index) =>
    syntheticInventory(index, describeSynthetic(index, 'fleet')),
  );
  const having = (part: string) =>
    fleet.filter(({ software = [] }) => software.some(({ name }) => name.includes(part))).length;

  it('is accepted by the server and is the same each time', () => {
    for (const [index, told] of fleet.entries()) {
      expect(Inventory.safeParse({ ...told, collectedAt: '2026-11-01T00:00:00Z' }).error).to.equal(undefined);
      expect(syntheticInventory(index, describeSynthetic(index, 'fleet'))).to.deep.equal(told);
    }
  });

  it('gives filters something to find: common software, rare software, and old versions', () => {
    expect(having('Chrome')).to.be.within(60, 119);
    expect(having('AnyDesk')).to.be.within(1, 20);
    expect(having('Java 8')).to.be.within(1, 20);
    const firefox = fleet.flatMap(({ software = [] }) =>
      software.filter(({ name }) => name === 'Mozilla Firefox').map(({ version }) => version),
    );
    expect(new Set(firefox).size).to.be.greaterThan(1);
    expect(new Set(fleet.map(({ network }) => network!.macAddress)).size).to.equal(fleet.length);
  });
});
