import { expect } from 'chai';
import { io } from 'socket.io-client';
import { CapabilitySets } from '../../../../src/hub/agents/agent-connections.ts';
import { HUB_PATH } from '../../../../src/protocol/index.ts';
import { buildDevice, buildTenant } from '../../../support/factories.ts';
import { createTestApp } from '../../../support/test-app.ts';

describe('the capabilities of agents', () => {
  it('keep one copy of a list that many agents send', () => {
    const lists = new CapabilitySets();
    const first = lists.intern(['a', 'b']);
    expect(lists.intern(['a', 'b'])).to.equal(first);
    expect(lists.intern(['a,b'])).to.deep.equal(['a,b']);
    for (let other = 0; other < 300; other++) lists.intern([String(other)]);
    expect(lists.intern(['a', 'b'])).to.not.equal(first);
  });
});

describe('a connection of an agent', () => {
  it('cannot be used by a person in another namespace', async () => {
    const app = await createTestApp();
    const tenant = await buildTenant(app);
    const device = await buildDevice(app, tenant.orgId);
    const options = { path: HUB_PATH, transports: ['websocket'], reconnection: false };
    const agent = io(`${app.url}/agents`, {
      ...options,
      auth: { token: device.token, protocol: 1, agentVersion: '1.0.0', capabilities: [], bootId: 'boot-1' },
    });
    await new Promise<void>((resolve) => agent.once('connect', resolve));
    // The same manager: a second namespace on one connection.
    const person = agent.io.socket('/dashboard', { auth: { token: tenant.admin.token } });
    const error = await new Promise<Error>((resolve, reject) => {
      person.once('connect_error', resolve);
      person.once('connect', () => reject(new Error('it was let in')));
      person.connect();
    });
    expect(error.message).to.equal('This connection belongs to an agent. Open another one.');
    expect(
      await agent
        .timeout(2000)
        .emitWithAck('heartbeat', { at: new Date().toISOString(), agentVersion: '1.0.0' }),
    ).to.include({ ok: true });
    agent.disconnect();
    await app.close();
  });
});
