import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { agentCommand, startAgent, type AgentProgram } from './agent-program.ts';
import { eventually } from './eventually.ts';
import { buildTenant } from './factories.ts';
import { lastingPort } from './lasting-port.ts';
import { createTestApp, type TestApp } from './test-app.ts';
import { createTestDatabase, type TestDatabase } from './test-postgres.ts';

const ENV = { AGENT_HEARTBEAT_SECONDS: '1' };

interface AgentStatus {
  code: number | null;
  deviceId: string;
  running: { connection: { state: string } } | null;
}

/** The real agent as processes, each test with a data folder of its own, and a real server that they know. */
export interface AgentPrograms {
  readonly app: TestApp;
  readonly tenant: Awaited<ReturnType<typeof buildTenant>>;
  readonly dataDir: string;
  start(args: string[], env?: Record<string, string>): AgentProgram;
  enroll(key: string, more?: string[]): ReturnType<typeof agentCommand>;
  /** What the tenant's administrator reads there. */
  // oxlint-disable-next-line typescript/no-explicit-any -- an answer is whatever the server sent
  get(where: string): Promise<any>;
  status(): Promise<AgentStatus>;
  /** What the command `status` says when the file has that state: each question is a start of the program. */
  statusIn(state: string, isSo: (status: AgentStatus) => boolean): Promise<AgentStatus>;
  connectedStatus(): Promise<AgentStatus>;
  stopServer(): Promise<void>;
  /** At the address that the agents know. */
  startServer(): Promise<void>;
}

/** Declares the hooks of the enclosing `describe`. */
export function useAgentPrograms(): AgentPrograms {
  let database: TestDatabase;
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let dataDir: string;
  let port: number;
  const programs: AgentProgram[] = [];

  before(async () => {
    database = await createTestDatabase();
    port = await lastingPort();
    await startServer();
    tenant = await buildTenant(app);
  });
  after(async () => {
    await app.close();
    await database.drop();
  });
  beforeEach(async () => {
    dataDir = await mkdtemp(path.join(tmpdir(), 'muster-agent-'));
  });
  afterEach(async () => {
    for (const { child, ended } of programs.splice(0)) {
      child.kill('SIGKILL');
      await ended;
    }
    await rm(dataDir, { recursive: true, force: true });
  });

  async function startServer(): Promise<void> {
    app = await createTestApp({ database, env: { ...ENV, PORT: String(port) } });
  }

  async function status(): Promise<AgentStatus> {
    const { code, output } = await agentCommand(['status', '--json', '--data-dir', dataDir]);
    return { ...(JSON.parse(output) as Omit<AgentStatus, 'code'>), code };
  }

  async function statusIn(state: string, isSo: (status: AgentStatus) => boolean): Promise<AgentStatus> {
    await eventually(
      () => readFile(path.join(dataDir, 'status.json'), 'utf8').catch(() => ''),
      (text) => text.includes(`"${state}"`),
    );
    return eventually(status, isSo);
  }

  return {
    get app() {
      return app;
    },
    get tenant() {
      return tenant;
    },
    get dataDir() {
      return dataDir;
    },
    start(args, env = {}) {
      const program = startAgent(args, env);
      programs.push(program);
      return program;
    },
    enroll: (key, more = []) =>
      agentCommand(['enroll', '--server', app.url, '--key', key, '--data-dir', dataDir, ...more]),
    get: async (where) => (await app.call('GET', where, { token: tenant.admin.token })).body,
    status,
    statusIn,
    connectedStatus: () => statusIn('connected', ({ code }) => code === 0),
    stopServer: () => app.close(),
    startServer,
  };
}
