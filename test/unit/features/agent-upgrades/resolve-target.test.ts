import { expect } from 'chai';
import type { Wave } from '../../../../src/features/agent-upgrades/resolve-target.ts';
import { type Case, NIGHT, PLAIN, resolve } from './target-cases.ts';

const rolledOut = (wave: Wave, version = '1.1.0') => ({ version, wave });
const WITH_1_2 = { promoted: '1.1.0', builds: { '1.1.0': 'trusted', '1.2.0': 'trusted' } } as const;

describe('the target of a device', () => {
  const EXAMPLES: [
    title: string,
    change: Partial<Case>,
    target: string | null,
    state: string,
    reason: string | null,
    message: string,
  ][] = [
    [
      'is the promoted release',
      {},
      '1.1.0',
      'offered',
      null,
      'Nothing stands in the way of the upgrade of the agent to 1.1.0.',
    ],
    [
      'may be what runs',
      { current: '1.1.0' },
      '1.1.0',
      'up_to_date',
      null,
      'The agent runs its target version 1.1.0.',
    ],
    [
      'is the release that candidates led to',
      { current: '1.1.0-rc.10' },
      '1.1.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'is none while nothing is promoted',
      { stock: { builds: { '1.1.0': 'trusted' } } },
      null,
      'blocked',
      'no_release',
      'No release of the agent is promoted for linux/x64.',
    ],
    [
      'is a pin, which holds back what is promoted',
      { organization: { pins: { agent: '1.0.0' } } },
      '1.0.0',
      'up_to_date',
      'pinned',
      'The organization pins the agent to 1.0.0, so newer releases are not installed.',
    ],
    [
      "is the partner's pin",
      { partner: { pins: { agent: '1.0.0' } } },
      '1.0.0',
      'up_to_date',
      'pinned',
      'The partner pins the agent to 1.0.0',
    ],
    [
      'is the promoted release if the organization overrides a pin with latest',
      { partner: { pins: { agent: '1.0.0' } }, organization: { pins: { agent: 'latest' } } },
      '1.1.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'is not affected by the pin of another component',
      { organization: { pins: { watchdog: '1.0.0' } } },
      '1.1.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'may be an older version that is pinned',
      { current: '1.1.0', organization: { pins: { agent: '1.0.0' } } },
      '1.0.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'may be newer than the promoted one if it is pinned',
      {
        organization: { pins: { agent: '1.2.0-rc.1' } },
        stock: { promoted: '1.1.0', builds: { '1.2.0-rc.1': 'trusted' } },
      },
      '1.2.0-rc.1',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'is not installed without a build of the pin, although another is promoted',
      { organization: { pins: { agent: '1.0.5' } } },
      '1.0.5',
      'blocked',
      'no_build_for_platform',
      'There is no build of agent 1.0.5 for linux/x64.',
    ],
    [
      'is not installed if its signature does not hold',
      { stock: { promoted: '1.1.0', builds: { '1.1.0': 'untrusted' } } },
      '1.1.0',
      'blocked',
      'signature_untrusted',
      'The signature of agent 1.1.0 does not hold, so it is not installed.',
    ],
    [
      'is not installed over something newer',
      { current: '1.2.0-rc.1' },
      '1.1.0',
      'blocked',
      'newer_than_target',
      'The agent runs 1.2.0-rc.1, which is newer than 1.1.0; only a pin to a version installs an older one.',
    ],
    [
      'is not installed over what cannot be compared',
      { current: 'dev-7' },
      '1.1.0',
      'blocked',
      'newer_than_target',
      'The agent reports the version dev-7, which cannot be compared with 1.1.0; only a pin to a version replaces it.',
    ],
    [
      'is installed over that if it is pinned',
      { current: 'dev-7', partner: { pins: { agent: '1.0.0' } } },
      '1.0.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'needs an agent that can install it',
      { device: { ...PLAIN.device, capabilities: [] } },
      '1.1.0',
      'blocked',
      'capability_missing',
      'The agent cannot install releases by itself: it does not report the capability agent.upgrade.',
    ],
    [
      'is not installed if updates are switched off, by hand neither',
      { device: { ...PLAIN.device, autoUpdate: false }, byHand: true },
      '1.1.0',
      'blocked',
      'auto_update_off',
      'Automatic updates are switched off for this device.',
    ],
    [
      'is left to people by the policy manual',
      { organization: { policy: 'manual' } },
      '1.1.0',
      'blocked',
      'policy_manual',
      'The organization has the update policy manual: upgrades start on request.',
    ],
    [
      'is installed under that policy for somebody who asks',
      { organization: { policy: 'manual' }, byHand: true },
      '1.1.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'waits for the window also by hand',
      { partner: { policy: 'manual', maintenanceWindow: NIGHT }, byHand: true },
      '1.1.0',
      'deferred',
      'outside_window',
      'Upgrades are installed in the maintenance window only, which opens next at 2026-11-23T22:00:00.000Z.',
    ],
    [
      'waits for the end of a maintenance window also by hand',
      { maintenance: { name: 'Patch night', until: new Date('2026-11-22T14:00:00Z') }, byHand: true },
      '1.1.0',
      'deferred',
      'in_maintenance',
      'No upgrades are installed during the maintenance window Patch night, and none before 2026-11-22T14:00:00.000Z.',
    ],
    [
      'waits for its wave',
      { partner: { policy: 'staged' } },
      '1.1.0',
      'deferred',
      'wave_not_reached',
      'The update policy is staged, and no wave of a rollout of 1.1.0 has reached this device.',
    ],
    [
      'is offered with its wave',
      { partner: { policy: 'staged' }, rollout: rolledOut('reached') },
      '1.1.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'is not installed from a halted rollout, by hand neither',
      { partner: { policy: 'staged' }, rollout: rolledOut('halted'), byHand: true },
      '1.1.0',
      'blocked',
      'rollout_halted',
      'The rollout of 1.1.0 was halted.',
    ],
    [
      'is the version of a rollout that is higher than the promoted one',
      { partner: { policy: 'staged' }, rollout: rolledOut('reached', '1.2.0'), stock: WITH_1_2 },
      '1.2.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'is that version also while its wave has not come',
      { partner: { policy: 'staged' }, rollout: rolledOut('not_reached', '1.2.0'), stock: WITH_1_2 },
      '1.2.0',
      'deferred',
      'wave_not_reached',
      'The update policy is staged, and no wave of a rollout of 1.2.0 has reached this device.',
    ],
    [
      'is the promoted release if the rollout is of an older one, which says nothing about it',
      {
        partner: { policy: 'staged' },
        rollout: rolledOut('reached', '1.0.0'),
        current: '0.9.0',
      },
      '1.1.0',
      'deferred',
      'wave_not_reached',
      'The update policy is staged',
    ],
    [
      'is the promoted release if the rollout has no build for the platform',
      {
        current: '1.1.0',
        partner: { policy: 'staged' },
        rollout: rolledOut('reached', '1.3.0'),
        stock: WITH_1_2,
      },
      '1.1.0',
      'up_to_date',
      null,
      'The agent runs its target version 1.1.0.',
    ],
    [
      'is a pin whatever is rolled out',
      {
        partner: { policy: 'staged', pins: { agent: '1.1.0' } },
        rollout: rolledOut('reached', '1.2.0'),
        stock: WITH_1_2,
        current: '1.1.0',
      },
      '1.1.0',
      'up_to_date',
      'pinned',
      'The partner pins the agent to 1.1.0',
    ],
    [
      'does not depend on rollouts under the policy auto',
      { rollout: rolledOut('halted', '1.2.0'), stock: WITH_1_2 },
      '1.1.0',
      'offered',
      null,
      'Nothing stands',
    ],
    [
      'waits for the device to connect',
      { device: { ...PLAIN.device, connected: false } },
      '1.1.0',
      'deferred',
      'agent_offline',
      'The device is not connected; 1.1.0 is offered when it connects.',
    ],
  ];
  for (const [title, change, target, state, reason, message] of EXAMPLES) {
    it(title, () => {
      const found = resolve({ ...PLAIN, ...change });
      expect([found.target, found.state, found.reason]).to.deep.equal([target, state, reason]);
      expect(found.message.startsWith(message), found.message).to.equal(true);
    });
  }

  it('comes with the level that each setting came from', () => {
    const found = resolve({
      ...PLAIN,
      organization: { pins: { agent: 'latest' }, policy: 'auto', maintenanceWindow: NIGHT },
      partner: { pins: { agent: '1.0.0' }, policy: 'manual' },
    });
    expect(found.levels).to.deep.equal({ pin: 'organization', policy: 'partner', window: 'organization' });
    expect(resolve(PLAIN).levels).to.deep.equal({ pin: 'default', policy: 'default', window: 'default' });
  });
});
