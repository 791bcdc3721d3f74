import { expect } from 'chai';
import type { Socket } from 'node:net';
import type { EventLogsEnd } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';

describe('a live query to many devices', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let watcher: DashboardClient;
  let ends: EventLogsEnd[];
  let agents: FakeDevice[];

  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    agents = [];
    ends = [];
    watcher = await connectDashboard(app, tenant.admin.token);
    watcher.socket.on('eventlogs:end', (message: EventLogsEnd) => ends.push(message));
  });
  afterEach(() => {
    watcher.close();
    for (const agent of agents) agent.close();
  });

  async function connected(): Promise<{ device: EnrolledDevice; agent: FakeDevice }> {
    const device = await buildDevice(app, tenant.orgId);
    const agent = await connectDevice(app, device.token);
    agents.push(agent);
    return { device, agent };
  }
  const entry = {
    recordId: 1,
    timeCreated: '2026-11-20T10:00:00.000Z',
    level: 'error',
    source: 'disk',
    eventId: 7,
    // So much a row that the network soon takes no more.
    message: 'x'.repeat(20_000),
    category: 'System',
    user: null,
    computer: 'DESK-1',
  };

  it('pauses for a client that does not read, and continues when it does', async () => {
    const fleet = await Promise.all(Array.from({ length: 70 }, connected));
    for (const { agent } of fleet) {
      agent.socket.on('command', (frame: { id: string; epoch: number; type: string; payload: unknown }) => {
        const answer = async () => {
          await agent.send('command:rows', {
            id: frame.id,
            seq: 0,
            rows: Array.from({ length: 45 }, () => entry),
            done: false,
          });
          await agent.finish(frame, { status: 'succeeded', output: { scanned: 45, truncated: false } });
        };
        answer().catch(() => {});
      });
    }
    const tcp = (watcher.socket.io.engine.transport as unknown as { ws: { _socket: Socket } }).ws._socket;
    const { queryId } = await watcher.send('eventlogs:query', {
      deviceIds: fleet.map(({ device }) => device.deviceId),
      name: 'System',
    });
    tcp.pause();
    const asked = () => fleet.filter(({ agent }) => agent.commands.length > 0).length;
    await eventually(asked, (count) => count >= 64);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(asked()).to.be.lessThan(70);
    tcp.resume();
    const end = await eventually(
      () => ends.find((one) => one.queryId === queryId),
      (one) => one !== undefined,
    );
    const outcomes = end?.outcomes ?? [];
    expect(
      outcomes.filter(({ outcome, rows: count }) => outcome === 'answered' && count === 45),
    ).to.have.length(70);
  });
});
