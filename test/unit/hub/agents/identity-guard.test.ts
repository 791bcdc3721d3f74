import { expect } from 'chai';
import { IdentityGuard } from '../../../../src/hub/agents/identity-guard.ts';
import { InProcessDirectory } from '../../../../src/hub/cluster/directory.ts';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { ActorRegistry } from '../../../../src/hub/device/actor-registry.ts';
import type { AgentIdentity, IdentityConflict } from '../../../../src/hub/ports.ts';
import type { NodeBus } from '../../../../src/platform/cluster/node-bus.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const NOTED_FOR_MS = 10 * 60_000;
const IDENTITY: AgentIdentity = {
  deviceId: 'device-1',
  orgId: 'org-1',
  siteId: 'site-1',
  partnerId: 'partner-1',
  machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
};
const CLAIMANT = { bootId: 'boot-1', ip: '192.0.2.1' };

describe('a conflict about the identity of a device', () => {
  const clock = useTestClock({ isRunning: false });
  let guard: IdentityGuard;
  let recorded: IdentityConflict[];
  let isAway: boolean;

  beforeEach(() => {
    recorded = [];
    isAway = false;
    guard = new IdentityGuard({
      registry: new ActorRegistry(),
      directory: new InProcessDirectory(),
      bus: { nodeId: 'north', onNodeLost() {} } as unknown as NodeBus<HubMessage>,
      async record(conflict) {
        if (isAway) throw new Error('the database is away');
        recorded.push(conflict);
      },
      log: quietLog,
    });
  });
  const conflict = async () => {
    guard.outlived(IDENTITY, CLAIMANT);
    await guard.settle();
  };

  it('is stored once in ten minutes', async () => {
    await conflict();
    await clock.advance(NOTED_FOR_MS - 1);
    await conflict();
    expect(recorded).to.have.length(1);
    await clock.advance(1);
    await conflict();
    expect(recorded).to.have.length(2);
    expect(recorded[0]).to.deep.equal({
      deviceId: 'device-1',
      orgId: 'org-1',
      holder: CLAIMANT,
      other: CLAIMANT,
    });
  });

  it('that could not be stored is stored the next time that it shows itself', async () => {
    isAway = true;
    await conflict();
    isAway = false;
    await conflict();
    expect(recorded).to.have.length(1);
  });
});
