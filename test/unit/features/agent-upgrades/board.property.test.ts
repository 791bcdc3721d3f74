import { expect } from 'chai';
import fc from 'fast-check';
import type { AgentUpdateSettings } from '../../../../src/features/partners/index.ts';
import { AgentRelease } from '../../../../src/features/releases/release.model.ts';
import {
  effectiveSettings,
  resolveTarget,
  waveOf,
} from '../../../../src/features/agent-upgrades/resolve-target.ts';
import type { BoardRows } from '../../../../src/features/agent-upgrades/offer-cache.queries.ts';
import { UpgradeOfferCache } from '../../../../src/features/agent-upgrades/upgrade-offer-cache.ts';
import { UPGRADE_CAPABILITY } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';
import { quietLog } from '../../../support/quiet-log.ts';

/** A board that reads from a world in memory, compared with the resolver asked about the same world directly. */

const PARTNER = '00000000-0000-4000-8000-000000000001';
const ORGS = ['00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-00000000000b'];
const DEVICES = ['00000000-0000-4000-8000-0000000000d1', '00000000-0000-4000-8000-0000000000d2'];
const VERSIONS = ['1.0.0', '1.1.0', '1.2.0-rc.1', '1.2.0'];

const mostly = fc.oneof(
  { weight: 4, arbitrary: fc.constant(true) },
  { weight: 1, arbitrary: fc.constant(false) },
);
const pins = fc.constantFrom(undefined, 'latest', ...VERSIONS);
const windows = fc.constantFrom<AgentUpdateSettings['maintenanceWindow'][]>(
  undefined,
  undefined,
  { days: ['sun'], start: '11:00', end: '13:00' },
  { days: ['mon', 'sun'], start: '22:00', end: '04:00' },
);
const settings: fc.Arbitrary<AgentUpdateSettings> = fc.record({
  pins: fc.record({ agent: pins, watchdog: pins }),
  policy: fc.constantFrom(
    undefined,
    undefined,
    undefined,
    'auto' as const,
    'staged' as const,
    'manual' as const,
  ),
  maintenanceWindow: windows,
});
const releases = fc.uniqueArray(
  fc.record({
    component: fc.constantFrom('agent' as const, 'watchdog' as const),
    version: fc.constantFrom(...VERSIONS),
    promoted: mostly,
    isTrusted: mostly,
  }),
  { selector: ({ component, version }) => `${component} ${version}`, minLength: 4, maxLength: 8 },
);
const worlds = fc.record({
  partner: settings,
  organizations: fc.array(settings, { minLength: 2, maxLength: 2 }),
  releases,
  rollout: fc.option(
    fc.record({
      version: fc.constantFrom(...VERSIONS),
      reachedPercent: fc.constantFrom(0, 50, 100),
      isHalted: fc.boolean(),
    }),
    { nil: undefined },
  ),
});
type World = typeof worlds extends fc.Arbitrary<infer W> ? W : never;
const devices = fc.record({
  device: fc.constantFrom(...DEVICES),
  org: fc.nat({ max: 1 }),
  agentVersion: fc.constantFrom('dev-7', ...VERSIONS),
  watchdogVersion: fc.constantFrom(undefined, ...VERSIONS),
  autoUpdate: fc.constantFrom(undefined, true, true, false),
  canUpgrade: mostly,
  now: fc.date({ min: new Date('2026-11-20'), max: new Date('2026-11-26'), noInvalidDate: true }),
});

/** One promoted release of a component at most, as the database has it. */
const onePromoted = (all: World['releases']) =>
  all.map((one) => ({
    ...one,
    promoted:
      one.promoted && all.find((other) => other.promoted && other.component === one.component) === one,
  }));

const rolloutsOf = ({ rollout }: World) =>
  rollout === undefined
    ? []
    : [{ ...rollout, id: PARTNER, component: 'agent', firstDevices: new Set<string>() }];

function rowsOf(world: World): BoardRows {
  const untrusted = new Set<string>();
  const rows = onePromoted(world.releases).map(({ isTrusted, ...one }) => {
    const id = `${one.component} ${one.version}`;
    if (!isTrusted) untrusted.add(id);
    return AgentRelease.fromJson(
      {
        ...one,
        id,
        os: 'linux',
        architecture: 'x64',
        sha256: '0'.repeat(64),
        size: 1,
        signature: 's',
        keyId: 'k',
      },
      { skipValidation: true },
    );
  });
  return {
    partners: [{ id: PARTNER, settings: world.partner }],
    organizations: world.organizations.map((own, index) => ({
      id: ORGS[index] ?? '',
      partnerId: PARTNER,
      settings: own,
    })),
    releases: { rows, isTrusted: ({ id }) => !untrusted.has(id) },
    rollouts: rolloutsOf(world),
    attempts: [],
    pauses: [],
    switches: [],
  };
}

/** The first component that the resolver offers, where the agent has to be up to date before the watchdog. */
function expected(world: World, asked: typeof devices extends fc.Arbitrary<infer D> ? D : never): string[] {
  const organization = world.organizations[asked.org];
  if (organization === undefined) return [];
  const known = onePromoted(world.releases);
  const answer = (component: 'agent' | 'watchdog', current: string) =>
    resolveTarget({
      component,
      current,
      maintenance: undefined,
      device: {
        osType: 'linux',
        architecture: 'x64',
        autoUpdate: asked.autoUpdate ?? true,
        capabilities: asked.canUpgrade ? [UPGRADE_CAPABILITY] : [],
        connected: true,
      },
      settings: effectiveSettings({ organization, partner: world.partner }),
      releases: {
        promoted: (wanted) => known.find((one) => one.component === wanted && one.promoted)?.version,
        build: (wanted, version) => {
          const build = known.find((one) => one.component === wanted && one.version === version);
          return build === undefined ? undefined : build.isTrusted ? 'trusted' : 'untrusted';
        },
      },
      rollout:
        component === 'agent' && world.rollout !== undefined
          ? { version: world.rollout.version, wave: waveOf(rolloutsOf(world)[0], asked.device) }
          : undefined,
      byHand: false,
      now: asked.now,
    });
  const { pins: wanted } = effectiveSettings({ organization, partner: world.partner });
  const how = (component: 'agent' | 'watchdog') => (wanted[component].value === 'latest' ? '' : ' pinned');
  const agent = answer('agent', asked.agentVersion);
  if (agent.state === 'offered') return [`agent ${agent.target}${how('agent')}`];
  if (agent.state !== 'up_to_date' || asked.watchdogVersion === undefined) return [];
  const watchdog = answer('watchdog', asked.watchdogVersion);
  return watchdog.state === 'offered' ? [`watchdog ${watchdog.target}${how('watchdog')}`] : [];
}

describe('the board', () => {
  it('offers what the resolver answers, also after changes, and for as long as it says', async () => {
    let offers = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(worlds, { minLength: 1, maxLength: 2 }),
        fc.array(devices, { minLength: 20, maxLength: 20 }),
        async (history, questions) => {
          let [world] = history;
          const board = new UpgradeOfferCache({
            read: async () => rowsOf(world!),
            baseUrl: () => 'http://muster',
            isInTouch: () => true,
            log: quietLog,
          });
          await board.start();
          for (world of history) {
            const before = board.revision;
            board.mayHaveMissed();
            await eventually(
              () => board.revision,
              (revision) => revision > before,
            );
            for (const asked of questions) {
              const question = {
                identity: {
                  deviceId: asked.device,
                  orgId: ORGS[asked.org] ?? '',
                  siteId: 'site',
                  partnerId: PARTNER,
                  machine: {
                    osType: 'linux' as const,
                    architecture: 'x64' as const,
                    autoUpdate: true,
                    canUpgrade: asked.canUpgrade,
                  },
                },
                capabilities: undefined,
                agentVersion: asked.agentVersion,
                watchdogVersion: asked.watchdogVersion,
                autoUpdate: asked.autoUpdate,
              };
              const { upgrade, until } = board.offer(question, asked.now.getTime());
              const list = upgrade.map(
                ({ component, version, pinned }) =>
                  `${component} ${version}${pinned === true ? ' pinned' : ''}`,
              );
              expect(list).to.deep.equal(expected(world, asked));
              offers += list.length;
              // It still holds just before the end that it names.
              if (Number.isFinite(until) && world.organizations[asked.org] !== undefined) {
                expect(expected(world, { ...asked, now: new Date(until - 1) })).to.deep.equal(list);
              }
            }
          }
          await board.close();
        },
      ),
      { numRuns: 60 },
    );
    // Some of the random worlds offer nothing; that hardly any does would be a fault of the generator.
    expect(offers).to.be.at.least(10);
  });

  it('offers nothing while it cannot be read, or does not hear of changes', async () => {
    const world: World = {
      partner: {},
      organizations: [{}],
      releases: [{ component: 'agent', version: '1.1.0', promoted: true, isTrusted: true }],
      rollout: undefined,
    };
    let [isAway, isInTouch] = [true, true];
    const board = new UpgradeOfferCache({
      read: async () => {
        if (isAway) throw new Error('The database is away.');
        return rowsOf(world);
      },
      baseUrl: () => 'http://muster',
      isInTouch: () => isInTouch,
      log: quietLog,
    });
    const offer = () =>
      board.offer(
        {
          identity: {
            deviceId: DEVICES[0] ?? '',
            orgId: ORGS[0] ?? '',
            siteId: 'site',
            partnerId: PARTNER,
            machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
          },
          capabilities: undefined,
          agentVersion: '1.0.0',
          watchdogVersion: undefined,
          autoUpdate: undefined,
        },
        Date.now(),
      ).upgrade.length;
    await board.start();
    expect(offer()).to.equal(0);
    isAway = false;
    await eventually(offer, (count) => count === 1);
    isInTouch = false;
    expect(offer()).to.equal(0);
    isInTouch = true;
    expect(offer()).to.equal(1);
    isAway = true;
    board.notified(['{"kind":"something of a later release","id":null}']);
    await eventually(offer, (count) => count === 0);
    isAway = false;
    await eventually(offer, (count) => count === 1);
    await board.close();
  });
});
