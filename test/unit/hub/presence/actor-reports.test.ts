import { expect } from 'chai';
import type { IdentityGuard } from '../../../../src/hub/agents/identity-guard.ts';
import type { Directory } from '../../../../src/hub/cluster/directory.ts';
import type { CommandDispatcher } from '../../../../src/hub/commands/command-dispatcher.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { ClusterFeed } from '../../../../src/hub/feed/cluster-feed.ts';
import type { JobFeed } from '../../../../src/hub/commands/job-feed.ts';
import type { AgentIdentity, PresenceRecord } from '../../../../src/hub/ports.ts';
import { ActorReports } from '../../../../src/hub/presence/actor-reports.ts';
import { UnwrittenAddresses, type PresenceWriter } from '../../../../src/hub/presence/presence-writer.ts';
import { ReportingDevices } from '../../../../src/hub/presence/http-reports.ts';
import type { UpgradeReportWriter } from '../../../../src/hub/agents/upgrade-report-writer.ts';
import { recordingLog } from '../../../support/quiet-log.ts';

const AT = '2026-01-31T08:00:00.000Z';
const METRICS = { cpuPercent: 1, ramPercent: 2, diskPercent: 3 };
const identity = {
  deviceId: 'device-1',
  orgId: 'org',
  siteId: 'site',
  partnerId: 'partner',
} as AgentIdentity;
const JOB = '01890000-0000-7000-8000-000000000001';

describe('the reports of device actors', () => {
  let calls: unknown[][];
  let releaseFails: boolean;
  let reporting: ReportingDevices;
  let registry: ActorRegistry;
  let log: ReturnType<typeof recordingLog>;
  const reports = ({ hasUpgrades = true } = {}) =>
    new ActorReports({
      registry,
      reporting,
      log: log.log,
      guard: {
        outlived: (...args: unknown[]) => void calls.push(['outlived', ...args]),
      } as unknown as IdentityGuard,
      directory: {
        async release(...args: unknown[]) {
          calls.push(['release', ...args]);
          if (releaseFails) throw new Error('Redis is away');
        },
      } as unknown as Directory,
      writer: {
        presence: (record) => void calls.push(['written', record]),
        facts: (facts) => void calls.push(['facts', facts]),
      } as PresenceWriter,
      feed: {
        reported: (...args: unknown[]) => void calls.push(['shown', ...args]),
      } as unknown as ClusterFeed,
      dispatcher: {
        wake: (id) => void calls.push(['woken', id]),
        record: (...args: unknown[]) => void calls.push(['recorded', ...args]),
      } as CommandDispatcher,
      upgrades: hasUpgrades
        ? ({
            record: (...args: unknown[]) => void calls.push(['upgrade', ...args]),
          } as unknown as UpgradeReportWriter)
        : undefined,
      services: { record: (...args: unknown[]) => void calls.push(['services', ...args]) },
      samples: { record: (...args: unknown[]) => void calls.push(['samples', ...args]) },
      jobs: { output: (...args: unknown[]) => void calls.push(['output', ...args]) } as unknown as JobFeed,
    });
  const record = (more: Partial<PresenceRecord> = {}): PresenceRecord => ({
    deviceId: 'device-1',
    epoch: 7,
    presence: { state: 'connected', since: AT, reason: 'connected' },
    lastSeenAt: AT,
    lastIp: null,
    metrics: null,
    uptimeSeconds: null,
    ...more,
  });

  beforeEach(() => {
    calls = [];
    releaseFails = false;
    reporting = new ReportingDevices();
    registry = new ActorRegistry();
    log = recordingLog();
    reporting.set('device-1', { until: 0, lastSeenAt: 1, known: undefined });
  });

  it('write and show presence, for the tenants of the device', () => {
    const mine = record({ metrics: { ...METRICS } });
    reports().presence(mine, { identity, isHeartbeat: true });
    expect(calls).to.deep.equal([
      ['written', mine],
      ['shown', mine, { tenant: identity, isReporting: false, isHeartbeat: true }],
    ]);
    expect(calls[0]?.[1]).to.equal(mine);
  });

  it('tell the guard of identities of a connection that was alive when another one replaced it', () => {
    const [identity, claimant] = [{ deviceId: 'device-1' }, { bootId: 'boot-1' }];
    reports().outlived({ identity, claimant } as unknown as DeviceActor);
    expect(calls).to.deep.equal([['outlived', identity, claimant]]);
  });

  it('end reports over HTTP with a connection, and not with its end', () => {
    const presence = { state: 'disconnected', since: AT, reason: 'socket_closed' } as const;
    reports().presence(record({ presence }), { identity, isHeartbeat: false });
    expect([
      reporting.size,
      (calls[1]?.[2] as { isReporting: boolean } | undefined)?.isReporting,
    ]).to.deep.equal([1, true]);
    reports().presence(record(), { identity, isHeartbeat: false });
    expect(reporting.size).to.equal(0);
  });

  it('pass on facts, readiness, commands and upgrades', () => {
    const all = reports();
    const onStored = () => {};
    const event = { kind: 'accepted', id: 'command-1', deviceId: 'device-1' } as const;
    const status = { component: 'agent', targetVersion: '2.0.0', phase: 'failed' } as const;
    const facts = { deviceId: 'device-1', agentVersion: '1.0.0', capabilities: undefined } as never;
    all.facts(facts);
    all.ready({ deviceId: 'device-1' } as DeviceActor);
    all.command(event, onStored);
    all.upgrade('device-1', status, onStored);
    expect(calls).to.deep.equal([
      ['facts', facts],
      ['woken', 'device-1'],
      ['recorded', event, onStored],
      ['upgrade', { ...status, deviceId: 'device-1' }, onStored],
    ]);
  });

  it('acknowledge upgrades if there are no releases', () => {
    const acks: boolean[] = [];
    const status = { component: 'agent', targetVersion: '2.0.0', phase: 'failed' } as const;
    reports({ hasUpgrades: false }).upgrade('device-1', status, (isStored) => void acks.push(isStored));
    expect([acks, calls]).to.deep.equal([[true], []]);
  });

  it('pass on output of jobs, if it is some', () => {
    const rows = [{ stream: 'stdout', text: 'a line' }];
    reports().rows('device-1', { id: JOB, seq: 3, rows, done: false });
    reports().rows('device-1', { id: JOB, seq: 4, rows: [], done: true });
    reports().rows('device-1', { id: 'no id', seq: 4, rows, done: true });
    expect(calls).to.deep.equal([['output', 'device-1', { id: JOB, seq: 3, rows }, undefined]]);
  });

  it('release the claim of an actor that ends, also when that fails', async () => {
    const actor = { deviceId: 'device-1', epoch: 7 } as DeviceActor;
    registry.put(actor);
    releaseFails = true;
    reports().gone(actor);
    expect([registry.size, calls]).to.deep.equal([0, [['release', 'device-1', 7]]]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(log.lines.map(({ event }) => event)).to.deep.equal(['hub.release_failed']);
  });

  it('log an actor that fails', () => {
    reports().failed(new Error('broken'), { deviceId: 'device-1' } as DeviceActor);
    expect(log.lines[0]).to.include({ event: 'hub.actor_failed', deviceId: 'device-1' });
  });
});

describe('addresses that were replaced before they were written', () => {
  const twenty = Array.from({ length: 20 }, (_, n) => `10.0.0.${n}`);

  it('are known in order, if they differ, at most twenty of a device', () => {
    const addresses = new UnwrittenAddresses();
    addresses.replaced('device-1', null, 'a');
    addresses.replaced('device-1', 'a', null);
    addresses.replaced('device-1', 'a', 'a');
    expect(addresses.size).to.equal(0);
    for (const earlier of [...twenty, 'one more']) addresses.replaced('device-1', earlier, 'later');
    addresses.replaced('device-2', 'a', 'b');
    expect([...addresses]).to.deep.equal([
      ['device-1', twenty],
      ['device-2', ['a']],
    ]);
  });

  it('come before later ones when they are put back', () => {
    const addresses = new UnwrittenAddresses();
    addresses.putBack('device-1', ['a']);
    addresses.replaced('device-1', 'b', 'c');
    addresses.putBack('device-1', ['0']);
    expect(addresses.get('device-1')).to.deep.equal(['0', 'a', 'b']);
    addresses.putBack('device-1', twenty);
    expect(addresses.get('device-1')).to.deep.equal(twenty);
  });
});
