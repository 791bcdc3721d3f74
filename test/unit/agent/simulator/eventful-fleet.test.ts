import { expect } from 'chai';
import {
  circumstancesOf,
  hostnameOf,
  osOf,
  syntheticHeartbeat,
} from '../../../../src/agent/simulator/synthetic-machine.ts';
import { SyntheticLogs } from '../../../../src/agent/simulator/synthetic-logs.ts';
import { SyntheticUpgrades } from '../../../../src/agent/simulator/simulated-machine.ts';
import { syntheticServices } from '../../../../src/agent/simulator/synthetic-services.ts';
import { Heartbeat, LogEntry, ServiceReport, type UpdateStatus } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';

const FLEET = Array.from({ length: 120 }, (_none, index) => index);
const OFFER = {
  component: 'agent',
  version: '1.4.0-rc.2',
  url: 'https://muster.example/file',
  sha256: 'a'.repeat(64),
};
const HOUR_MS = 3_600_000;

async function entriesOf(hasFailingDisk: boolean, index = 4) {
  const logs = new SyntheticLogs(index, { hostname: 'A', hasFailingDisk });
  const entries: LogEntry[] = [];
  const startTime = new Date(Date.now() - HOUR_MS).toISOString();
  const query = { name: 'System', page: 1, limit: 500, startTime, level: ['error' as const] };
  for await (const entry of logs.query(query, new AbortController().signal)) entries.push(entry);
  return entries;
}

describe('an eventful fleet of simulated machines', () => {
  it('has one failing disk, poor connections and upgrades; any other fleet has none', () => {
    const eventful = FLEET.map((index) => circumstancesOf(index, true));
    const failing = FLEET.filter((index) => eventful[index]?.hasFailingDisk);
    expect(failing).to.have.length(1);
    expect(osOf(failing[0]!)).to.equal('windows');
    expect(eventful.filter(({ hasPoorConnection }) => hasPoorConnection)).to.have.length(4);
    expect(eventful.filter(({ rollsBack }) => rollsBack).length).to.be.within(1, 20);
    expect(eventful.filter((one) => one.hasUnreliableService).length).to.be.within(1, 20);
    const quiet = FLEET.flatMap((index) => Object.values(circumstancesOf(index, false)));
    expect(new Set(quiet)).to.deep.equal(new Set([false]));
  });

  it('floods the log of the failing disk, with entries that the server accepts', async () => {
    const index = FLEET.find((one) => circumstancesOf(one, true).hasFailingDisk)!;
    const [usual, flooded] = [await entriesOf(false, index), await entriesOf(true, index)];
    expect(flooded.length).to.be.greaterThan(10 * usual.length);
    expect(flooded.filter(({ source }) => source === 'Disk').length).to.be.greaterThan(flooded.length / 2);
    for (const entry of flooded) expect(LogEntry.safeParse(entry).error).to.equal(undefined);
    const figures = { agentVersion: '1.3.0', hasFailingDisk: true };
    const { metrics } = Heartbeat.parse(syntheticHeartbeat(index, Date.now(), figures));
    expect(metrics?.diskPercent).to.be.greaterThan(90);
  });

  it('has services that the server accepts, of which one stops for some minutes of each hour', () => {
    const at = Date.UTC(2026, 0, 1);
    for (const index of FLEET.slice(0, 20)) {
      const states = Array.from({ length: 60 }, (_none, minute) => {
        const { manager, services } = syntheticServices(index, at + minute * 60_000, {
          hasUnreliableService: true,
        });
        expect(ServiceReport.safeParse({ manager, isComplete: true, services }).success).to.equal(true);
        return services[0]?.state;
      });
      expect(states.filter((state) => state !== 'running')).to.have.length(8);
      const [steady] = syntheticServices(index, at, { hasUnreliableService: false }).services;
      expect(steady?.state).to.equal('running');
    }
  });

  it('calls its machines by their site', () => {
    const names = { site: 'LIS', places: ['FRONT'] as const };
    const server = FLEET.find((index) => osOf(index) === 'linux')!;
    expect(hostnameOf(server, names)).to.equal(`LIS-SRV-${String(server + 1).padStart(3, '0')}`);
    expect(hostnameOf(FLEET.find((index) => osOf(index) === 'windows')!, names)).to.match(
      /^LIS-FRONT-\d{3}$/,
    );
  });

  for (const rollsBack of [false, true]) {
    it(`reports the phases of an upgrade that ${rollsBack ? 'is rolled back' : 'succeeds'}, once`, async () => {
      const sent: UpdateStatus[] = [];
      let version = '1.3.0';
      const upgrades = new SyntheticUpgrades({
        index: 1,
        rollsBack,
        version: () => version,
        restartAs: async (next) => {
          version = next;
        },
        pause: async () => {},
      });
      upgrades.connected(async (status) => void sent.push(status));
      const answer = { ok: true as const, at: '', nextInMs: 1, upgrade: [OFFER] };
      upgrades.acknowledged(answer);
      upgrades.acknowledged(answer);
      await eventually(
        () => sent.length,
        (count) => count === 5,
      );
      expect(sent.map(({ phase }) => phase)).to.deep.equal([
        'downloading',
        'verifying',
        'installing',
        'restarting',
        rollsBack ? 'rolled_back' : 'completed',
      ]);
      expect(new Set(sent.map(({ attemptId }) => attemptId)).size).to.equal(1);
      expect(sent.at(-1)?.code).to.equal(rollsBack ? 'NOT_CONNECTED' : undefined);
      expect(version).to.equal(rollsBack ? '1.3.0' : OFFER.version);
    });
  }
});
