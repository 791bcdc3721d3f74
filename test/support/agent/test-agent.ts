import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { LiveRunner, type LiveHandlers } from '../../../src/agent/work/live-runner.ts';
import { AgentConnection } from '../../../src/agent/core/connection.ts';
import type { ConnectionState } from '../../../src/agent/core/connection-options.ts';
import { CommandStore } from '../../../src/agent/work/command-store.ts';
import { DurableRunner } from '../../../src/agent/work/durable-runner.ts';
import { JournalFile, type Journal } from '../../../src/agent/work/journal-file.ts';
import type { DurableHandlers } from '../../../src/agent/work/handler.ts';
import { ServerClock } from '../../../src/agent/core/server-clock.ts';
import { fixedToken, type Tokens } from '../../../src/agent/core/tokens.ts';
import { type Network, environmentNetwork } from '../../../src/agent/os/network/network.ts';
import type { Heartbeat, HeartbeatAck } from '../../../src/protocol/index.ts';
import type { TestClock } from '../../support/test-clock.ts';

/** The agent's parts, put together with what a test wants them to do. */
export interface TestAgent {
  connection: AgentConnection;
  queries: LiveRunner;
  durable: DurableRunner;
  states: ConnectionState[];
  warnings: string[];
  /** The answers to its heartbeats. */
  answers: HeartbeatAck[];
  stop(): Promise<void>;
}

export async function startTestAgent(options: {
  server: string;
  dataDir: string;
  network?: Network;
  httpAfterMs?: number;
  live?: LiveHandlers;
  work?: DurableHandlers;
  journal?: Journal;
  random?: () => number;
  tokens?: Tokens;
  afterResultMs?: number;
  ackMs?: number;
  /** More for the heartbeat. */
  facts?: () => Partial<Heartbeat>;
}): Promise<TestAgent> {
  const {
    server,
    dataDir,
    live = {},
    work = {},
    random = () => 0,
    facts = () => ({}),
    network = environmentNetwork({}),
    httpAfterMs,
    ackMs = 1000,
    tokens = fixedToken('t'),
  } = options;
  const states: ConnectionState[] = [];
  const warnings: string[] = [];
  const answers: HeartbeatAck[] = [];
  const warn = (message: string) => void warnings.push(message);
  const serverClock = new ServerClock();
  const queries = new LiveRunner(live, serverClock);
  const durable = new DurableRunner({
    store: new CommandStore(options.journal ?? new JournalFile(journalIn(dataDir), warn)),
    handlers: work,
    serverClock,
    warn,
    retryMs: 100,
    ...(options.afterResultMs === undefined ? {} : { afterResultMs: options.afterResultMs }),
  });
  const connection = new AgentConnection({
    server,
    network,
    deviceId: 'd',
    ...(httpAfterMs === undefined ? {} : { httpAfterMs }),
    tokens,
    handshake: { agentVersion: '1', capabilities: queries.capabilities, bootId: 'b' },
    queries,
    durable,
    serverClock,
    heartbeat: async () => ({ at: new Date().toISOString(), agentVersion: '1', ...facts() }),
    onHeartbeatAck: (answer) => void answers.push(answer),
    onState: (state) => states.push(state),
    random,
    ackMs,
  });
  await durable.start();
  connection.start();
  return {
    connection,
    queries,
    durable,
    states,
    warnings,
    answers,
    async stop() {
      connection.stop();
      await durable.stop();
    },
  };
}

export const journalIn = (dataDir: string) => path.join(dataDir, 'commands.journal');

/** Lets the time pass that the agent waits before it connects again; none where it does not wait. */
export async function passWait({ states }: TestAgent, testClock: TestClock): Promise<void> {
  const state = states.at(-1);
  if (state?.state === 'waiting') await testClock.advance(Date.parse(state.nextTryAt) - testClock.now() + 1);
}

/** A folder for one test. */
export async function temporaryFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-agent-test-'));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}
