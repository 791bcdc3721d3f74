import { expect } from 'chai';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { InProcessDirectory } from '../../../../src/hub/cluster/directory.ts';
import type { HubMessage } from '../../../../src/hub/cluster/messages.ts';
import { createHub, type Hub } from '../../../../src/hub/index.ts';
import type { TerminalRecordingPart, TerminalStore } from '../../../../src/hub/ports.ts';
import { InProcessCluster } from '../../../../src/platform/cluster/node-bus.ts';
import type { Caller } from '../../../../src/platform/context.ts';
import { AppError } from '../../../../src/platform/errors.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { createMetrics } from '../../../../src/platform/metrics.ts';
import type { TerminalClosed, TerminalControl, TerminalOutput } from '../../../../src/protocol/index.ts';
import { connectDashboard, type DashboardClient } from '../../../support/dashboard-client.ts';
import { eventually } from '../../../support/eventually.ts';
import { connectDevice, type FakeDevice } from '../../../support/fake-device.ts';
import { quietLog } from '../../../support/quiet-log.ts';

const DEVICE = newId();
const CALLER: Caller = {
  kind: 'user',
  userId: newId(),
  sessionId: newId(),
  apiKeyId: null,
  email: 'ada@example.com',
  name: 'Ada',
  scope: 'system',
  partnerId: null,
  orgId: null,
  orgAccess: 'all',
  orgIds: [],
  roleId: newId(),
  roleName: 'Admin',
  permissions: new Set(['*:*']),
  mfa: true,
  ipAllowlist: [],
};

interface Node {
  url: string;
  hub: Hub;
  close(): Promise<void>;
}

/** The device is connected to one server, and the dashboard to another. */
describe('a terminal across servers', () => {
  let cluster: InProcessCluster<HubMessage>;
  let directory: InProcessDirectory;
  let east: Node;
  let west: Node;
  let agent: FakeDevice;
  let controls: TerminalControl[];
  let dashboard: DashboardClient;
  let outputs: TerminalOutput[];
  let closed: TerminalClosed[];
  let parts: TerminalRecordingPart[];
  let ended: string[];
  let isStoring: boolean;

  /** One store for both servers, as the database is. */
  const store: TerminalStore = {
    open: async () => ({ terminalId: newId(), resumeToken: 'r', viewer: 'Ada', recordedTo: 0 }),
    resume: async ({ terminalId }) => ({
      terminalId,
      resumeToken: 'r',
      viewer: 'Ada',
      recordedTo: parts.at(-1)?.recordedTo ?? 0,
    }),
    keep: async () => new Map(),
    async record(_id, part) {
      if (!isStoring) throw new AppError('unavailable', 'The database is away.');
      parts.push(part);
      return 'stored';
    },
    ended: async (_id, { reason }) => void ended.push(reason),
  };

  async function startNode(nodeId: string): Promise<Node> {
    const httpServer = createServer();
    const hub = createHub({
      proxyTrust: { proxies: undefined, cfConnectingIp: false },
      httpServer,
      nodeId,
      bus: cluster.join(nodeId),
      directory,
      heartbeatSeconds: 60,
      graceMs: 100,
      log: quietLog,
      metrics: createMetrics(),
      terminals: store,
      credentials: {
        verify: async () => ({
          ok: true,
          identity: {
            deviceId: DEVICE,
            orgId: 'org',
            siteId: 'site',
            partnerId: 'partner',
            machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
          },
        }),
        forget: () => {},
        lapsed: async () => [],
      },
      ledger: {
        take: async () => ({ dispatched: [], cancelled: [], changed: [] }),
        record: async () => [],
        undelivered: async () => [],
        sweep: async () => [],
        jobs: async () => [],
      },
      people: { authenticate: async () => CALLER, countUse: async () => {} },
      store: {
        recordPresence: async () => {},
        recordFacts: async () => [],
        recordConflict: async () => {},
        recordReports: async () => {},
        reporting: async () => [],
        markLost: async () => [],
        greatestEpoch: async () => 0,
        misrecorded: async () => [],
        askable: async () => new Map(),
        found: async () => [],
        summaries: async () => [],
        summariesOf: async () => [],
      },
    });
    await hub.start();
    await new Promise<void>((resolve) => httpServer.listen(0, '127.0.0.1', resolve));
    const { port } = httpServer.address() as AddressInfo;
    return { url: `http://127.0.0.1:${port}`, hub, close: () => hub.close() };
  }

  beforeEach(async () => {
    cluster = new InProcessCluster();
    directory = new InProcessDirectory();
    [parts, ended, isStoring] = [[], [], true];
    [east, west] = [await startNode('east'), await startNode('west')];
    agent = await connectDevice(east, 'token');
    controls = [];
    agent.socket.on('terminal:control', (control: TerminalControl, ack: (answer: unknown) => void) => {
      controls.push(control);
      ack({ ok: true });
    });
    await agent.heartbeat();
    dashboard = await connect(west);
  });
  afterEach(async () => {
    agent.close();
    dashboard.close();
    await Promise.all([east.close(), west.close()]);
  });

  async function connect(node: Node): Promise<DashboardClient> {
    const client = await connectDashboard(node, 'token');
    [outputs, closed] = [[], []];
    client.socket.on('terminal:data', (output: TerminalOutput) => outputs.push(output));
    client.socket.on('terminal:close', (message: TerminalClosed) => closed.push(message));
    return client;
  }

  async function opened(client = dashboard, more: object = {}) {
    const asked = client.send('terminal:open', { deviceId: DEVICE, cols: 80, rows: 24, ...more });
    const frame = await agent.nextCommand();
    await agent.rows(frame, [
      { kind: 'attached', mode: 'pty', shell: 'sh', notice: 'nobody', offset: 0 },
      { kind: 'output', offset: 0, data: 'hello', received: 0 },
    ]);
    const answer = await asked;
    return { frame, answer, terminalId: answer.terminalId as string };
  }
  const shown = () => outputs.map(({ data }) => data).join('');
  const until = (isSo: () => boolean) => eventually(isSo, (so) => so);

  it('carries what is typed and shown, in order, and confirms what is taken and recorded', async () => {
    const { terminalId } = await opened();
    await until(() => shown() === 'hello');
    for (const key of 'echo 1\r') await dashboard.send('terminal:data', { terminalId, data: key });
    await until(() => controls.map(({ input = '' }) => input).join('') === 'echo 1\r');
    await dashboard.send('terminal:data', { terminalId, taken: 5 });
    await until(() => controls.at(-1)?.taken === 5);
    expect(parts.flatMap(({ events }) => events.filter(({ code }) => code === 'o'))).to.have.length(1);
  });

  it('waits for its recording: while that cannot be stored, the device is not asked for more', async () => {
    isStoring = false;
    const { terminalId } = await opened();
    await dashboard.send('terminal:data', { terminalId, taken: 5 });
    await dashboard.send('terminal:data', { terminalId, data: 'x' });
    await until(() => controls.some(({ input }) => input === 'x'));
    expect(controls.every(({ taken }) => taken === 0)).to.equal(true);
  });

  it('is interrupted when the server of its device dies, and continued when that is back elsewhere', async () => {
    const { terminalId } = await opened();
    await until(() => shown() === 'hello');
    await east.close();
    await until(() => closed.length > 0);
    expect(closed[0]).to.include({ terminalId, reason: 'disconnected', canContinue: true });
    expect(ended).to.deep.equal([]);
    agent = await connectDevice(west, 'token');
    await agent.heartbeat();
    const { answer, frame } = await opened(dashboard, { terminalId, resumeToken: 'r', after: 5 });
    expect(answer).to.include({ ok: true, offset: 5 });
    expect(frame.payload).to.include({ isNew: false, terminalId });
    east = await startNode('east');
  });

  it('is left without a viewer, and not ended, when the server of the dashboard dies', async () => {
    const { frame } = await opened();
    await west.close();
    await until(() => agent.cancelled.includes(frame.id));
    expect(controls.some(({ end }) => end === true)).to.equal(false);
    expect(ended).to.deep.equal([]);
    west = await startNode('west');
  });

  it('ends on the device when the person ends it', async () => {
    const { frame, terminalId } = await opened();
    await dashboard.send('terminal:close', { terminalId });
    await until(() => controls.some(({ end }) => end === true));
    await agent.succeed(frame, { reason: 'closed', exitCode: null });
    await until(() => ended.length > 0);
    expect(ended).to.deep.equal(['closed']);
    const late = await dashboard.send('terminal:data', { terminalId, data: 'x' });
    expect(late.error.code).to.equal('NOT_FOUND');
  });
});
