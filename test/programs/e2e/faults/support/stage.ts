import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { saveCredentials } from '../../../../../src/agent/core/settings.ts';
import { openPool } from '../../../../../src/platform/db/pool.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { type AgentProgram, startAgent } from '../../../../support/agent-program.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice, type Ground } from '../../../../support/factories.ts';
import { killProgram } from '../../../../support/program.ts';
import { asOwner, type TestDatabase } from '../../../../support/test-postgres.ts';
import { openFrontDoor, type FrontDoor } from './front-door.ts';
import { expectAtRest, type Levels, levelsAtRest } from './levels.ts';
import { startServerProgram, type ServerProgram } from './server-program.ts';
import { type Work, workIn } from './work.ts';

/** Servers and agents as programs of their own, with one front door, one database and one tenant. */
export interface Stage {
  database: Pick<TestDatabase, 'ownerUrl' | 'appUrl'>;
  door: FrontDoor;
  /** Of somebody who may do everything with the devices. */
  token: string;
  orgId: string;
  folder: string;
  /** The first server, to which the door leads until it is told otherwise. */
  north: ServerProgram;
  startServer(nodeId: string, redisUrl?: string): Promise<ServerProgram>;
  /** Commands of one test. */
  work(): Promise<Work>;
  enroll(server: ServerProgram): Promise<EnrolledDevice>;
  /** The agent of an enrolled device, started; through the front door unless told otherwise. */
  startAgent(device: EnrolledDevice, server?: { url: string }): Promise<RealAgent>;
  presence(deviceId: string): Promise<PresenceRow>;
  /** Waits until the device is shown as connected to this server. */
  isAt(server: ServerProgram, deviceId: string): Promise<void>;
  /** Ends agents and their scripts. */
  clear(): Promise<void>;
  /** Notes what the servers have open while nobody is there, each after its first request. */
  noteRest(): Promise<void>;
  /**
   * With all agents gone, the servers have no more open than at rest, and no command has come to anything else since
   * its test has looked.
   */
  expectNothingLeft(): Promise<void>;
  close(): Promise<void>;
}

export interface RealAgent {
  deviceId: string;
  output(): string;
  hasEnded(): boolean;
  /** kill -9 */
  kill(): Promise<void>;
  /** Another process on the same folder, as a service manager starts it. */
  startAgain(): void;
}

export interface PresenceRow {
  state: string;
  reason: string;
  node_id: string;
}

const SOON_MS = 60_000;

export async function setStage(options: {
  database: Pick<TestDatabase, 'ownerUrl' | 'appUrl'>;
  redisUrl: string | undefined;
  heartbeatSeconds?: number;
}): Promise<Stage> {
  const { database, redisUrl, heartbeatSeconds } = options;
  const folder = await mkdtemp(path.join(tmpdir(), 'muster-faults-'));
  const door = await openFrontDoor();
  const servers: ServerProgram[] = [];
  const agents: RealAgent[] = [];
  const works: Work[] = [];
  const rest = new Map<ServerProgram, Levels>();
  const pool = openPool(database.appUrl, { max: 2, name: 'muster-test' });

  const startServer = async (nodeId: string, own = redisUrl) => {
    const dataDir = path.join(folder, nodeId);
    const server = await startServerProgram({ nodeId, database, redisUrl: own, dataDir, heartbeatSeconds });
    servers.push(server);
    return server;
  };
  const groundOf = (server: ServerProgram): Ground => ({
    call: server.call,
    get log() {
      return server.log();
    },
    server: { database: { pool } },
  });
  const presence = async (deviceId: string) => {
    const [row] = await asOwner<PresenceRow & { [column: string]: unknown }>(
      database.ownerUrl,
      'select state, reason, node_id from device_presence where device_id = $1',
      [deviceId],
    );
    return row ?? { state: 'disconnected', reason: 'never_seen', node_id: '' };
  };
  const clear = async () => {
    for (const { effects } of works) await effects.openGate();
    await Promise.all(agents.splice(0).map((agent) => agent.kill()));
  };
  const close = async () => {
    await clear();
    await Promise.all(servers.map((server) => server.kill()));
    await pool.destroy();
    await door.close();
    await rm(folder, { recursive: true, force: true });
  };

  try {
    const north = await startServer('north');
    door.to(north);
    const { admin, orgId } = await buildTenant(groundOf(north));
    const { token } = admin;
    return {
      database,
      door,
      token,
      orgId,
      folder,
      north,
      startServer,
      async work() {
        const own = path.join(folder, newId());
        await mkdir(own);
        const work = workIn(own, { ownerUrl: database.ownerUrl, token });
        works.push(work);
        return work;
      },
      async enroll(server) {
        const device = await buildDevice(groundOf(server), orgId);
        // Known before its first connection, so that work can be ordered for it.
        await asOwner(database.ownerUrl, `update devices set capabilities = '{script.run}' where id = $1`, [
          device.deviceId,
        ]);
        return device;
      },
      async startAgent(device, server = door) {
        const dataDir = path.join(folder, `agent-${newId()}`);
        await saveCredentials(dataDir, {
          ...device,
          server: server.url,
          // The server says how often, with each answer.
          heartbeatSeconds: 60,
          enrolledAt: new Date().toISOString(),
        });
        const agent = realAgent(device.deviceId, dataDir);
        agents.push(agent);
        return agent;
      },
      presence,
      async isAt({ nodeId }, deviceId) {
        await eventually(
          () => presence(deviceId),
          (row) => row.state === 'connected' && row.node_id === nodeId,
          SOON_MS,
        );
      },
      clear,
      async noteRest() {
        for (const server of servers) {
          await server.call('GET', '/devices', { token });
          rest.set(server, await levelsAtRest(server));
        }
      },
      async expectNothingLeft() {
        await clear();
        const running = [...rest].filter(([server]) => !server.hasEnded());
        await Promise.all(running.map(([server, levels]) => expectAtRest(server, levels)));
        for (const work of works) await work.expectUnchanged();
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function realAgent(deviceId: string, dataDir: string): RealAgent {
  const run = () => startAgent(['run', '--json', '--data-dir', dataDir]);
  let program: AgentProgram = run();
  return {
    deviceId,
    output: () => program.output(),
    hasEnded: () => program.child.exitCode !== null || program.child.signalCode !== null,
    kill: () => killProgram(program),
    startAgain() {
      program = run();
    },
  };
}
