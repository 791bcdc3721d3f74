import { expect } from 'chai';
import type { AgentUpdateSettings } from '../../../../src/features/partners/index.ts';
import { effectiveSettings, parseStored } from '../../../../src/features/agent-upgrades/resolve-target.ts';

const NIGHT = { days: ['mon' as const], start: '22:00', end: '04:00' };
const WEEKEND = { days: ['sat' as const, 'sun' as const], start: '00:00', end: '23:59' };

/** Every pair of values, and what counts: the value and the level it came from. */
type Rows<T> = [organization: T, partner: T, value: unknown, level: string][];

function check<T>(
  rows: Rows<T>,
  settingsOf: (value: T) => AgentUpdateSettings,
  pick: (of: ReturnType<typeof effectiveSettings>) => unknown,
) {
  for (const [organization, partner, value, level] of rows) {
    const effective = effectiveSettings({
      organization: settingsOf(organization),
      partner: settingsOf(partner),
    });
    expect(pick(effective), JSON.stringify({ organization, partner })).to.deep.equal({ value, level });
  }
}

describe('the settings of agent updates that count', () => {
  const PINS: Rows<string | null | undefined> = [
    [undefined, undefined, 'latest', 'default'],
    [undefined, null, 'latest', 'default'],
    [null, undefined, 'latest', 'default'],
    [null, null, 'latest', 'default'],
    [undefined, 'latest', 'latest', 'partner'],
    [null, 'latest', 'latest', 'partner'],
    [undefined, '1.0.0', '1.0.0', 'partner'],
    [null, '1.0.0', '1.0.0', 'partner'],
    ['latest', undefined, 'latest', 'organization'],
    ['latest', null, 'latest', 'organization'],
    ['latest', 'latest', 'latest', 'organization'],
    ['latest', '1.0.0', 'latest', 'organization'],
    ['2.0.0', undefined, '2.0.0', 'organization'],
    ['2.0.0', null, '2.0.0', 'organization'],
    ['2.0.0', 'latest', '2.0.0', 'organization'],
    ['2.0.0', '1.0.0', '2.0.0', 'organization'],
  ];
  for (const component of ['agent', 'watchdog'] as const) {
    it(`has the organization's pin of the ${component} before its partner's, also with latest`, () => {
      check(
        PINS,
        (pin) => ({ pins: { [component]: pin } }),
        ({ pins }) => pins[component],
      );
    });
  }

  it('has each component pinned by itself', () => {
    const { pins } = effectiveSettings({
      organization: { pins: { agent: '2.0.0' } },
      partner: { pins: { agent: '1.0.0', watchdog: '1.1.0' } },
    });
    expect(pins).to.deep.equal({
      agent: { value: '2.0.0', level: 'organization' },
      watchdog: { value: '1.1.0', level: 'partner' },
    });
  });

  it("has the partner's policy before the organization's", () => {
    const rows: Rows<AgentUpdateSettings['policy']> = [
      [undefined, undefined, 'auto', 'default'],
      [null, null, 'auto', 'default'],
      ['manual', undefined, 'manual', 'organization'],
      ['manual', null, 'manual', 'organization'],
      ['manual', 'auto', 'auto', 'partner'],
      ['manual', 'staged', 'staged', 'partner'],
      ['auto', 'manual', 'manual', 'partner'],
      [undefined, 'auto', 'auto', 'partner'],
      [null, 'staged', 'staged', 'partner'],
    ];
    check(
      rows,
      (policy) => ({ policy }),
      ({ policy }) => policy,
    );
  });

  it("has the partner's window before the organization's, whole", () => {
    const rows: Rows<AgentUpdateSettings['maintenanceWindow']> = [
      [undefined, undefined, null, 'default'],
      [null, null, null, 'default'],
      [NIGHT, undefined, NIGHT, 'organization'],
      [NIGHT, null, NIGHT, 'organization'],
      [NIGHT, WEEKEND, WEEKEND, 'partner'],
      [undefined, WEEKEND, WEEKEND, 'partner'],
      [null, WEEKEND, WEEKEND, 'partner'],
    ];
    check(
      rows,
      (maintenanceWindow) => ({ maintenanceWindow }),
      (effective) => effective.maintenanceWindow,
    );
  });

  it('merges each field by itself', () => {
    expect(
      effectiveSettings({
        organization: { pins: { agent: 'latest' }, policy: 'auto', maintenanceWindow: NIGHT },
        partner: { pins: { agent: '1.0.0' }, policy: 'staged' },
      }),
    ).to.deep.equal({
      pins: {
        agent: { value: 'latest', level: 'organization' },
        watchdog: { value: 'latest', level: 'default' },
      },
      policy: { value: 'staged', level: 'partner' },
      maintenanceWindow: { value: NIGHT, level: 'organization' },
    });
  });

  it('upgrades nothing by itself if the stored value is none that the schema takes', () => {
    for (const stored of ['1.0.0', 7, [], { pins: { agent: '1.0' } }, { policy: 'auto', more: true }]) {
      expect(parseStored(stored), JSON.stringify(stored)).to.deep.equal({ policy: 'manual' });
    }
    expect([parseStored(undefined), parseStored(null), parseStored({})]).to.deep.equal([{}, {}, {}]);
  });
});
