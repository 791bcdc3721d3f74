import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import { inventoryHandlers } from '../../../../src/agent/capabilities/inventory/inventory-reports.ts';
import { powerHandlers, rebootCommand, type Rebooter } from '../../../../src/agent/capabilities/power.ts';
import { updateHandlers } from '../../../../src/agent/capabilities/update/updater.ts';
import { AgentError } from '../../../../src/agent/core/agent-error.ts';
import { LANES_CAPABILITY, SECRETS_CAPABILITY } from '../../../../src/protocol/index.ts';
import { Settings } from '../../../../src/agent/core/settings.ts';
import { eventually } from '../../../support/eventually.ts';
import { startScriptedHub, type ScriptedHub } from '../../../support/scripted-hub.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';
import { startTestAgent, temporaryFolder, type TestAgent } from '../../../support/agent/test-agent.ts';

describe('commands for the agent itself', () => {
  const testClock = useTestClock();
  let hub: ScriptedHub;
  let temporary: Awaited<ReturnType<typeof temporaryFolder>>;
  let agent: TestAgent;
  let settings: Settings;
  let warnings: string[];
  let reboots: { delaySeconds: number; resultsBefore: number }[];
  let rebooter: Rebooter;
  let refreshInventory: (signal: AbortSignal) => Promise<void>;

  beforeEach(async () => {
    hub = await startScriptedHub();
    temporary = await temporaryFolder();
    warnings = [];
    reboots = [];
    refreshInventory = async () => {};
    rebooter = {
      check() {},
      async reboot(delaySeconds) {
        reboots.push({ delaySeconds, resultsBefore: hub.results.length });
      },
    };
  });
  afterEach(async () => {
    await agent?.stop();
    await hub.close();
    await temporary.remove();
  });

  const reportNow = () => agent.connection.heartbeatNow();
  const load = () => Settings.load(temporary.folder, (message) => warnings.push(message));
  /** For what the network and the disk still do, which have no clock. */
  const stillness = () => new Promise((resolve) => setTimeout(resolve, 30));
  async function start(more: { ackMs?: number; afterResultMs?: number } = {}): Promise<void> {
    settings = await load();
    agent = await startTestAgent({
      server: hub.url,
      dataDir: temporary.folder,
      work: {
        ...updateHandlers({ settings, reportNow }),
        ...inventoryHandlers({ reportNow, refreshInventory: async (signal) => refreshInventory(signal) }),
        ...powerHandlers(settings.allowReboot, rebooter),
      },
      facts: () => ({ autoUpdate: settings.autoUpdate }),
      ...more,
    });
    await heartbeats(1);
  }
  const heartbeats = (count: number) =>
    eventually(
      () => hub.heartbeats.length,
      (length) => length >= count,
    );
  const resultOf = (id: string) =>
    eventually(
      () => hub.results.find((result) => result.id === id),
      (found) => found !== undefined,
    ).then((result) => result!);

  it('stores whether it updates itself, and reports that at once', async () => {
    await start();
    expect(hub.lastHeartbeat!.autoUpdate).to.equal(true);
    const id = await hub.command('agent.set-auto-update', { enabled: false });
    expect(await resultOf(id)).to.deep.include({ status: 'succeeded', output: {} });
    await heartbeats(2);
    expect(hub.lastHeartbeat!.autoUpdate).to.equal(false);
    const file = path.join(temporary.folder, 'settings.json');
    expect((await stat(file)).mode & 0o777).to.equal(0o600);
    expect((await load()).autoUpdate).to.equal(false);
  });

  it('reports the facts of the machine again on request', async () => {
    await start();
    const id = await hub.command('agent.refresh-inventory', {});
    expect((await resultOf(id)).status).to.equal('succeeded');
    await heartbeats(2);
  });

  it('succeeds when the server has accepted the inventory, and otherwise fails with the reason', async () => {
    let taken = (): void => {};
    refreshInventory = async () =>
      new Promise((resolve) => {
        taken = resolve;
      });
    await start();
    const id = await hub.command('agent.refresh-inventory', {});
    await heartbeats(2);
    expect(hub.results).to.deep.equal([]);
    taken();
    expect((await resultOf(id)).status).to.equal('succeeded');
    refreshInventory = async () => {
      throw new AgentError('FAILED', 'not taken');
    };
    const second = await resultOf(await hub.command('agent.refresh-inventory', {}));
    expect(second).to.deep.include({ status: 'failed', error: { code: 'FAILED', message: 'not taken' } });
  });

  it('sends another heartbeat after one that was on its way when the request came', async () => {
    let letAnswer = () => {};
    hub.heartbeatAnswer = new Promise((resolve) => {
      letAnswer = resolve;
    });
    await start({ ackMs: 30_000 });
    await resultOf(await hub.command('agent.refresh-inventory', {}));
    await testClock.advance(5000);
    await stillness();
    expect(hub.heartbeats, 'one at a time').to.have.length(1);
    letAnswer();
    await heartbeats(2);
    await testClock.advance(30_000);
    await stillness();
    expect(hub.heartbeats).to.have.length(2);
  });

  it('reboots after the server has the result, not before', async () => {
    await start({ ackMs: 300 });
    hub.forgetAcks = 1;
    const id = await hub.command('agent.reboot', { delaySeconds: 90 });
    expect((await resultOf(id)).status).to.equal('succeeded');
    await stillness();
    expect(reboots).to.have.length(0);
    await eventually(
      async () => {
        // The agent sends the result again after a while.
        await testClock.advance(500);
        return reboots;
      },
      (list) => list.length === 1,
    );
    expect(reboots[0]).to.include({ delaySeconds: 90, resultsBefore: 2 });
  });

  it('reboots once and after a delay when the server does not acknowledge the result', async () => {
    const afterResultMs = 60_000;
    await start({ ackMs: 30_000, afterResultMs });
    hub.forgetAcks = 1000;
    await hub.command('agent.reboot', {}, { id: 'r' });
    await resultOf('r');
    await stillness();
    await testClock.advance(afterResultMs - 10_000);
    expect(reboots).to.have.length(0);
    await testClock.advance(10_000);
    expect(reboots).to.have.length(1);
    hub.forgetAcks = 0;
    await hub.command('agent.reboot', {}, { id: 'r' });
    await resultOf('r');
    await stillness();
    await testClock.advance(2 * afterResultMs);
    expect(reboots).to.have.length(1);
  });

  it('reports a failure instead of rebooting without the rights', async () => {
    rebooter.check = () => {
      throw new AgentError('FAILED', 'not root');
    };
    await start();
    const result = await resultOf(await hub.command('agent.reboot', {}));
    expect([result.status, result.error]).to.deep.equal(['failed', { code: 'FAILED', message: 'not root' }]);
    expect(reboots).to.have.length(0);
  });

  it('does not reboot when the administrator of the machine has forbidden it', async () => {
    await writeFile(path.join(temporary.folder, 'settings.json'), '{ "allowReboot": false }');
    await start();
    expect(agent.durable.capabilities).to.deep.equal([
      'agent.set-auto-update',
      'agent.refresh-inventory',
      LANES_CAPABILITY,
      SECRETS_CAPABILITY,
    ]);
    const result = await resultOf(await hub.command('agent.reboot', {}));
    expect(result.error!.code).to.equal('CAPABILITY_MISSING');
    await resultOf(await hub.command('agent.set-auto-update', { enabled: false }));
    const kept = JSON.parse(await readFile(path.join(temporary.folder, 'settings.json'), 'utf8'));
    expect(kept).to.deep.equal({
      autoUpdate: false,
      allowReboot: false,
      allowTerminals: true,
      shipLogs: true,
      sendInventory: true,
      insecureHttp: false,
    });
    expect(reboots).to.have.length(0);
  });

  it('treats settings that cannot be read as a prohibition', async () => {
    await writeFile(path.join(temporary.folder, 'settings.json'), '{ "allowReboot": fal');
    expect((await load()).allowReboot).to.equal(false);
    expect(warnings.join()).to.contain('settings.json');
  });

  it('fails when the setting cannot be stored', async () => {
    await start();
    await mkdir(path.join(temporary.folder, 'settings.json'));
    const result = await resultOf(await hub.command('agent.set-auto-update', { enabled: false }));
    expect(result.status).to.equal('failed');
    expect(settings.autoUpdate).to.equal(true);
  });

  it('reboots with the command of the system', () => {
    const line = (...args: Parameters<typeof rebootCommand>) => {
      const { command, args: words } = rebootCommand(...args);
      return [command, ...words].join(' ');
    };
    expect(line('linux', 0)).to.equal('shutdown -r now');
    expect(line('linux', 1)).to.equal('shutdown -r +1');
    expect(line('macos', 61)).to.equal('shutdown -r +2');
    expect(line('windows', 0)).to.equal('shutdown /r /t 0');
    expect(line('windows', 61)).to.equal('shutdown /r /t 61');
  });
});
