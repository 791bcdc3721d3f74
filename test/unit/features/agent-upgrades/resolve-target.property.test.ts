import { expect } from 'chai';
import fc from 'fast-check';
import { isOpen } from '../../../../src/features/agent-upgrades/resolve-target.ts';
import { UPGRADE_CAPABILITY } from '../../../../src/protocol/index.ts';
import { type Build, type Case, NIGHT, resolve, type Stock } from './target-cases.ts';

/** In ascending order. */
const LADDER = ['1.0.0-rc.2', '1.0.0-rc.10', '1.0.0', '1.1.0', '1.10.0'];
const pins = fc.constantFrom(undefined, null, 'latest', ...LADDER);
const policies = fc.constantFrom(undefined, null, 'auto' as const, 'staged' as const, 'manual' as const);
const windows = fc.constantFrom(undefined, null, NIGHT, {
  days: ['sun' as const],
  start: '11:00',
  end: '13:00',
});
const settings = fc.record({
  pins: fc.oneof(fc.record({ agent: pins, watchdog: pins }), fc.constantFrom(undefined, null)),
  policy: policies,
  maintenanceWindow: windows,
});
const mostly = fc.oneof(
  { weight: 4, arbitrary: fc.constant(true) },
  { weight: 1, arbitrary: fc.constant(false) },
);
const cases: fc.Arbitrary<Case> = fc.record({
  component: fc.constantFrom('agent' as const, 'watchdog' as const),
  current: fc.constantFrom('dev-7', ...LADDER),
  organization: settings,
  partner: settings,
  stock: fc.record({
    promoted: fc.constantFrom(undefined, ...LADDER),
    builds: fc.dictionary(
      fc.constantFrom(...LADDER),
      fc.oneof(
        { weight: 4, arbitrary: fc.constant<Build>('trusted') },
        { weight: 1, arbitrary: fc.constant<Build>('untrusted') },
      ),
    ),
  }),
  device: fc.record({
    osType: fc.constantFrom('linux' as const, 'linux' as const, 'linux' as const, 'windows' as const),
    architecture: fc.constantFrom('x64' as const, 'x64' as const, 'x64' as const, 'x86' as const),
    autoUpdate: mostly,
    capabilities: mostly.map((can) => (can ? [UPGRADE_CAPABILITY] : ['scripts.run'])),
    connected: mostly,
  }),
  rollout: fc.option(
    fc.record({
      version: fc.constantFrom(...LADDER),
      wave: fc.constantFrom('reached' as const, 'not_reached' as const, 'halted' as const),
    }),
    { nil: undefined, freq: 4 },
  ),
  maintenance: fc.option(
    fc.record({
      name: fc.constant('Patch night'),
      until: fc.date({ min: new Date('2026-11-26'), max: new Date('2026-11-27'), noInvalidDate: true }),
    }),
    { nil: undefined, freq: 3 },
  ),
  byHand: fc.boolean(),
  now: fc.date({ min: new Date('2026-11-20'), max: new Date('2026-11-26'), noInvalidDate: true }),
});

/** The first that is set. */
const first = <T>(...values: (T | null | undefined)[]): T | undefined =>
  values.find((value): value is T => value !== null && value !== undefined);

/** Every rule judged by itself, and then the documented order of reasons; versions by their place on the ladder. */
function refereeVerdict(one: Case): [target: string | null, state: string, reason: string | null] {
  const { component, current, organization, partner, stock, device, rollout, maintenance, byHand, now } = one;
  const pin = first(organization.pins?.[component], partner.pins?.[component]) ?? 'latest';
  const policy = first(partner.policy, organization.policy) ?? 'auto';
  const window = first(partner.maintenanceWindow, organization.maintenanceWindow);
  const known: Stock = device.osType === 'linux' && device.architecture === 'x64' ? stock : { builds: {} };
  const place = (version: string) => LADDER.indexOf(version);
  // All that `latest` can mean; the highest one counts.
  const candidates = known.promoted === undefined ? [] : [known.promoted];
  if (policy === 'staged' && rollout !== undefined && known.builds[rollout.version] !== undefined) {
    candidates.push(rollout.version);
  }
  const latest = candidates.sort((a, b) => place(b) - place(a))[0];
  const target = pin === 'latest' ? latest : pin;
  if (target === undefined) return [null, 'blocked', 'no_release'];
  const isRolledOut = rollout !== undefined && rollout.version === target;
  const isReached = isRolledOut && rollout.wave !== 'not_reached';
  if (current === target) {
    const isHeldBack = pin !== 'latest' && latest !== undefined && place(latest) > place(pin);
    return [target, 'up_to_date', isHeldBack ? 'pinned' : null];
  }
  const isOlder = current !== 'dev-7' && place(current) < place(target);
  const obstacles: [boolean, state: string, reason: string][] = [
    [pin === 'latest' && !isOlder, 'blocked', 'newer_than_target'],
    [known.builds[target] === undefined, 'blocked', 'no_build_for_platform'],
    [known.builds[target] === 'untrusted', 'blocked', 'signature_untrusted'],
    [!device.capabilities.includes(UPGRADE_CAPABILITY), 'blocked', 'capability_missing'],
    [!device.autoUpdate, 'blocked', 'auto_update_off'],
    [policy === 'manual' && !byHand, 'blocked', 'policy_manual'],
    [policy === 'staged' && isRolledOut && rollout.wave === 'halted', 'blocked', 'rollout_halted'],
    [policy === 'staged' && !isReached && !byHand, 'deferred', 'wave_not_reached'],
    [window !== undefined && !isOpen(window, now), 'deferred', 'outside_window'],
    [maintenance !== undefined, 'deferred', 'in_maintenance'],
    [!device.connected, 'deferred', 'agent_offline'],
  ];
  const [, state, reason] = obstacles.find(([holds]) => holds) ?? [false, 'offered', null];
  return [target, state, reason];
}

describe('the target of any device', () => {
  it('is what a second implementation answers', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(cases, (one) => {
        const { target, state, reason } = resolve(one);
        expect([target, state, reason]).to.deep.equal(refereeVerdict(one));
        seen.add(reason ?? state);
      }),
      { numRuns: 10_000 },
    );
    expect([...seen].sort(), 'every answer came up').to.deep.equal([
      'agent_offline',
      'auto_update_off',
      'capability_missing',
      'in_maintenance',
      'newer_than_target',
      'no_build_for_platform',
      'no_release',
      'offered',
      'outside_window',
      'pinned',
      'policy_manual',
      'rollout_halted',
      'signature_untrusted',
      'up_to_date',
      'wave_not_reached',
    ]);
  });

  it('is never older than what runs, except if a pin names it', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const { target, state, levels } = resolve(one);
        if (state !== 'offered') return;
        const isOlder = LADDER.indexOf(one.current) > LADDER.indexOf(String(target));
        if (isOlder) expect(levels.pin).to.not.equal('default');
        const pin = one.organization.pins?.[one.component] ?? one.partner.pins?.[one.component];
        if (isOlder) expect(pin).to.equal(target);
      }),
      { numRuns: 3_000 },
    );
  });

  it('has a next time when it waits for the window only, and the window no longer defers it then', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const { reason, nextAt, message } = resolve(one);
        expect(nextAt !== undefined).to.equal(reason === 'outside_window' || reason === 'in_maintenance');
        if (nextAt === undefined) return;
        expect(message).to.include(nextAt.toISOString());
        expect(resolve({ ...one, maintenance: undefined, now: nextAt }).reason).to.be.oneOf([
          null,
          'agent_offline',
        ]);
      }),
      { numRuns: 3_000 },
    );
  });

  it('that a person asks for is held back by no more than one that starts by itself', () => {
    fc.assert(
      fc.property(cases, (one) => {
        const [alone, byHand] = [resolve({ ...one, byHand: false }), resolve({ ...one, byHand: true })];
        expect(byHand.target).to.equal(alone.target);
        expect(byHand.reason).to.not.be.oneOf(['policy_manual', 'wave_not_reached']);
        if (alone.reason !== 'policy_manual' && alone.reason !== 'wave_not_reached') {
          expect(byHand).to.deep.equal(alone);
        }
      }),
      { numRuns: 3_000 },
    );
  });
});
